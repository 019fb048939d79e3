"""The HTTP API: the apps' parts put together, a token for each person, a page that describes it."""

from django.contrib.admin.views.decorators import staff_member_required
from ninja import NinjaAPI

from assets.api import router as assets
from playout.api import channels, playlists
from scheduling.api import bookings, recorders
from station.tokens import TokenAuth

api = NinjaAPI(
    title="Airlock",
    version="1",
    description="Send `Authorization: Bearer TOKEN`. An administrator makes tokens under API tokens; each may do what "
    "its person may do. Times have a zone. A refusal is 409 with the reason.",
    auth=TokenAuth(),
    docs_url="/docs",
    docs_decorator=staff_member_required,
)
api.add_router("/recorders", recorders)
api.add_router("/bookings", bookings)
api.add_router("/assets", assets)
api.add_router("/channels", channels)
api.add_router("/playlists", playlists)
