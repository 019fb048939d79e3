"""The HTTP API: the routers of all apps, a token per person, and a page that describes it."""

from django.contrib.admin.views.decorators import staff_member_required
from ninja import NinjaAPI

from assets.api import router as assets
from playout.api import channels, playlists
from scheduling.api import bookings, recorders
from station.tokens import TokenAuth

api = NinjaAPI(
    title="Airlock",
    version="1",
    description="Send `Authorization: Bearer TOKEN`. An administrator makes tokens under API tokens; a token has the "
    "rights of its user. Times must have a time zone. A refusal is a 409 with the reason.",
    auth=TokenAuth(),
    docs_url="/docs",
    docs_decorator=staff_member_required,
)
api.add_router("/recorders", recorders)
api.add_router("/bookings", bookings)
api.add_router("/assets", assets)
api.add_router("/channels", channels)
api.add_router("/playlists", playlists)
