"""Admin of the ports of nodes and of their reservations."""

from django.contrib import admin

from nodes.models import Port, Reservation
from nodes.models.port import RESERVATION_WORDS
from station.admin.base import ReadOnlyAdmin, StationAdmin
from station.admin.search import WordSearch


@admin.register(Port)
class PortAdmin(StationAdmin):
    list_display = ["node", "kind", "number", "note"]
    list_filter = ["node", "kind"]
    list_select_related = ["node"]
    search_fields = ["note", "number"]


@admin.register(Reservation)
class ReservationAdmin(WordSearch, ReadOnlyAdmin):
    list_display = ["port", "holder", "starts_at", "ends_at", "released_at"]
    list_filter = ["port__node", "port__kind"]
    list_select_related = ["port__node"]
    search_words = RESERVATION_WORDS
