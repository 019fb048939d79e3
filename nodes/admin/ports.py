"""Admin of the ports of nodes and of their reservations."""

from django.contrib import admin

from nodes.models import Port, Reservation
from station.admin.base import ReadOnlyAdmin, StationAdmin


@admin.register(Port)
class PortAdmin(StationAdmin):
    list_display = ["node", "kind", "number", "note"]
    list_filter = ["node", "kind"]
    search_fields = ["note", "number"]


@admin.register(Reservation)
class ReservationAdmin(ReadOnlyAdmin):
    list_display = ["port", "holder", "starts_at", "ends_at", "released_at"]
    list_filter = ["port__node", "port__kind"]
    search_fields = ["holder", "owner"]
