// A double click does a thing once: a form that is on its way is not sent again.
"use strict";

const FREE_AGAIN_MS = 10000; // for an answer that leaves the page as it is, like a download

function send(event, form) {
  if (form.dataset.isSent) event.preventDefault();
  form.dataset.isSent = "1";
}

// Dialogs: htmx sends them. After a redirect they stay sent: the page is about to go.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.target.matches("#dialog form")) send(event, event.target);
});
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.target.matches("#dialog form") && !event.detail.xhr?.getResponseHeader("HX-Redirect")) {
    delete event.target.dataset.isSent;
  }
});

// Pages: the browser sends them.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || form.hasAttribute("hx-post") || event.defaultPrevented) return;
  send(event, form);
  setTimeout(() => { delete form.dataset.isSent; }, FREE_AGAIN_MS);
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-is-sent]")) delete form.dataset.isSent;
});
