// The library's player: sets the source, reloads a live picture that stalls, and links the player to the time bar.
"use strict";

const STALL_AFTER_MS = 6000;
const RETRY_AFTER_MS = 1500;

function fresh(address) {
  return `${address}${address.includes("?") ? "&" : "?"}t=${Date.now()}`;
}

// Reloads a live playlist that failed at the start or whose encoder was replaced: browsers do not retry by themselves.
// Returns a function that ends it.
function keepLive(video) {
  let movedAt = Date.now();
  let loadedAt = 0;
  const load = () => {
    loadedAt = Date.now();
    video.src = fresh(video.dataset.source);
    video.play().catch(() => {});
  };
  let isOver = false;
  const again = () => setTimeout(() => {
    if (!isOver && Date.now() - loadedAt > RETRY_AFTER_MS) load();
  }, RETRY_AFTER_MS + 50);
  video.addEventListener("timeupdate", () => { movedAt = Date.now(); });
  video.addEventListener("error", again);
  video.addEventListener("ended", again);
  const watchdog = setInterval(() => {
    const isStill = Date.now() - Math.max(movedAt, loadedAt) > STALL_AFTER_MS;
    if (!document.hidden && isStill && (!video.paused || video.error)) load();
  }, 1000);
  load();
  return () => {
    isOver = true;
    clearInterval(watchdog);
    video.removeEventListener("error", again);
    video.removeEventListener("ended", again);
    video.removeAttribute("src");
    video.load();
  };
}

// Plays a live picture only while its section is open: each viewer costs processor time and bandwidth.
function watchWhileOpen(details) {
  const video = details.querySelector("video[data-source]");
  let end = null;
  details.addEventListener("toggle", () => {
    if (end) end();
    end = details.open ? keepLive(video) : null;
  });
}

function secondsAt(segments, x) {
  for (const each of segments) {
    if (x >= each.x0 && x <= each.x1 && each.x1 > each.x0) {
      return each.t0 + (each.t1 - each.t0) * (x - each.x0) / (each.x1 - each.x0);
    }
  }
  const next = segments.find((each) => each.x0 > x);
  return next ? next.t0 : null;
}

function placeOf(segments, seconds) {
  for (const each of segments) {
    if (seconds >= each.t0 && seconds <= each.t1 && each.t1 > each.t0) {
      return each.x0 + (each.x1 - each.x0) * (seconds - each.t0) / (each.t1 - each.t0);
    }
  }
  return null;
}

function followBar(box, video, segments) {
  const bar = box.querySelector("[data-bar]");
  const head = box.querySelector("[data-head]");
  if (!bar || !segments.length) return;
  bar.addEventListener("click", (event) => {
    const frame = bar.getBoundingClientRect();
    const seconds = secondsAt(segments, (event.clientX - frame.left) / frame.width);
    if (seconds !== null) video.currentTime = seconds;
  });
  video.addEventListener("timeupdate", () => {
    const place = placeOf(segments, video.currentTime);
    if (place === null) return;
    head.setAttribute("x1", String(place * 1000));
    head.setAttribute("x2", String(place * 1000));
  });
}

function start(box) {
  const video = box.querySelector("video[data-source]");
  const data = document.getElementById("airlock-segments");
  if (!video) return;
  if (video.dataset.live) {
    keepLive(video);
    return;
  }
  video.src = video.dataset.source;
  followBar(box, video, data ? JSON.parse(data.textContent) : []);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-airlock-player]").forEach(start);
  document.querySelectorAll("[data-airlock-watch]").forEach(watchWhileOpen);
});
