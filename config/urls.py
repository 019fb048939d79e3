"""The URLs of the web process."""

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

from assets.views import media
from assets.views import pages as library
from config import health_views
from config.api import api
from jobs import views as jobs
from playout.views import channels, exports, playlists
from playout.views import imports as playlist_imports
from scheduling.views import calendars, pages, recorders, schedules

admin.autodiscover()  # a process without pages has not imported them yet

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("healthz", health_views.healthz),
    path("readyz", health_views.readyz),
    path("metrics", health_views.metrics),
    path("runs/<int:pk>/now/", jobs.run_now, name="run-now"),
    path("recorders/<int:pk>/now/", recorders.recorder_now, name="recorder-now"),
    path("bookings/<int:pk>/frame.jpg", recorders.booking_frame, name="booking-frame"),
    path("media/assets/<int:pk>/<str:name>", media.product, name="media-product"),
    path("media/assets/<int:pk>/original/<int:number>", media.original, name="media-original"),
    path("media/live/booking-<int:pk>/<str:name>", media.live, name="media-live"),
    path("media/link/<str:grant>/<str:name>", media.linked, name="media-linked"),
    path("channels/<int:pk>/now/", channels.channel_now, name="channel-now"),
    path("media/live/<int:pk>/<str:name>", channels.channel_live, name="channel-live"),
    path("channels/<int:pk>/as-run/<str:day>.<str:form>", exports.asrun_day, name="asrun-day"),
    path("channels/<int:pk>/guide.xml", exports.guide, name="channel-guide"),
    path("playlists/times/", playlists.playlist_times, name="playlist-times"),
    path("schedules/preview/", schedules.schedule_preview, name="schedule-preview"),
    path("calendar/<str:token>.ics", calendars.calendar_feed, name="calendar-feed"),
    path("admin/tonight/", pages.tonight, name="tonight"),
    path("admin/punctuality/", pages.punctuality_page, name="punctuality"),
    path("admin/jobs/<int:pk>/backfill/", jobs.backfill_page, name="job-backfill"),
    path("admin/import-media/", library.import_media, name="import-media"),
    path("admin/import-playlist/", playlist_imports.import_playlist, name="import-playlist"),
    path("admin/what-goes/", library.what_goes, name="what-goes"),
    path("admin/import-calendar/", calendars.import_calendar, name="import-calendar"),
    path("api/", api.urls),
    path("admin/", admin.site.urls),
]
