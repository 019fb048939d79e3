"""Addresses of everything the web process answers."""

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

from config import views
from scheduling.views import calendars, jobs, pages, recorders, schedules

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("healthz", views.healthz),
    path("readyz", views.readyz),
    path("metrics", views.metrics),
    path("runs/<int:pk>/now/", jobs.run_now, name="run-now"),
    path("recorders/<int:pk>/now/", recorders.recorder_now, name="recorder-now"),
    path("bookings/<int:pk>/frame.jpg", recorders.booking_frame, name="booking-frame"),
    path("schedules/preview/", schedules.schedule_preview, name="schedule-preview"),
    path("calendar/<str:token>.ics", calendars.calendar_feed, name="calendar-feed"),
    path("admin/tonight/", pages.tonight, name="tonight"),
    path("admin/punctuality/", pages.punctuality_page, name="punctuality"),
    path("admin/jobs/<int:pk>/backfill/", jobs.backfill_page, name="job-backfill"),
    path("admin/import-calendar/", calendars.import_calendar, name="import-calendar"),
    path("admin/", admin.site.urls),
]
