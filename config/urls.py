"""Addresses of everything the web process answers."""

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

from config import views
from scheduling import views as scheduling_views

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("healthz", views.healthz),
    path("readyz", views.readyz),
    path("recorders/<int:pk>/now/", scheduling_views.recorder_now, name="recorder-now"),
    path("bookings/<int:pk>/frame.jpg", scheduling_views.booking_frame, name="booking-frame"),
    path("admin/", admin.site.urls),
]
