"""Recorders and bookings."""

from scheduling.models.booking import Booking, BookingEvent
from scheduling.models.recorder import Recorder

__all__ = ["Booking", "BookingEvent", "Recorder"]
