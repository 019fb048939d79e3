"""Middleware for every response: a content security policy, and times in house time."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from station.clock import house_zone

Handler = Callable[[HttpRequest], HttpResponse]


class ContentSecurityPolicyMiddleware:
    """Adds the policy from the settings (Django has this only from version 6)."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response
        self.policy = "; ".join(f"{name} {value}" for name, value in settings.CONTENT_SECURITY_POLICY.items())

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", self.policy)
        return response


class HouseTimeMiddleware:
    """Shows pages and reads forms in house time."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with timezone.override(house_zone()):
            return self.get_response(request)
