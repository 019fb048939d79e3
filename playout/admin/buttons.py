"""The buttons of a channel's page: each a POST with a confirmation, answered in words."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils import timezone
from unfold.decorators import action
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldBooleanSwitchWidget

from assets.models import Asset
from playout.channels import controls
from playout.lists.insertion import Wish
from playout.lists.rundown import lists_of
from playout.models import Channel, PlaylistItem
from station.admin.base import dialog, who

CLIPS_OFFERED = 300
Act = Callable[[HttpRequest, Channel, dict[str, Any]], controls.Outcome]


class CueForm(BaseDialogForm):
    """What is in the channel's list now."""

    item = forms.ModelChoiceField(PlaylistItem.objects.none(), widget=UnfoldAdminSelectWidget)
    take = forms.BooleanField(label="now, cutting what is on", required=False, widget=UnfoldBooleanSwitchWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        channel = Channel.objects.filter(pk=self.object_id).first()
        lists = lists_of(channel, timezone.now()) if channel else []
        items = PlaylistItem.objects.filter(playlist__in=lists).select_related("asset", "source")
        self.fields["item"].queryset = items.order_by("playlist__on", "position", "id")


class InsertForm(BaseDialogForm):
    """What the library of the channel's project has, the newest first."""

    asset = forms.ModelChoiceField(Asset.objects.none(), label="clip", widget=UnfoldAdminSelectWidget)
    take = forms.BooleanField(label="now, cutting what is on", required=False, widget=UnfoldBooleanSwitchWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        channel = Channel.objects.filter(pk=self.object_id).first()
        if channel is not None:
            newest = Asset.objects.playable().filter(project=channel.project_id).order_by("-pk")[:CLIPS_OFFERED]
            self.fields["asset"].queryset = Asset.objects.filter(pk__in=[row.pk for row in newest]).order_by("-pk")


def button(word: str, label: str, icon: str, title: str, text: str, **more: Any) -> Any:
    """One transport button: POST, with a confirmation, answered in words."""

    def press(self: Any, request: HttpRequest, form: forms.Form, object_id: int) -> Any:
        return self.operate(request, object_id, lambda channel: controls.do(word, channel, by=who(request)))

    press.__name__ = f"{word}_channel"  # unfold finds actions by it
    return action(
        description=label,
        icon=icon,
        permissions=[word],
        url_path=word.replace("_", "-"),
        dialog=dialog(title, text, label),
        **more,
    )(press)


def form_button(word: str, icon: str, title: str, text: str, form_class: type[forms.Form], act: Act) -> Any:
    """One that asks something in its dialog; `act` gets what was answered."""

    def press(self: Any, request: HttpRequest, form: forms.Form, object_id: int) -> Any:
        return self.operate(request, object_id, lambda channel: act(request, channel, form.cleaned_data))

    press.__name__ = f"{word}_channel"  # unfold finds actions by it
    label = word.capitalize()
    return action(
        description=f"{label}…",
        icon=icon,
        permissions=[word],
        url_path=word,
        dialog={**dialog(title, text, label), "form_class": form_class},
    )(press)


def cue(request: HttpRequest, channel: Channel, told: dict[str, Any]) -> controls.Outcome:
    return controls.command(channel, "cue", by=who(request), item=told["item"], take=told["take"])


def insert(request: HttpRequest, channel: Channel, told: dict[str, Any]) -> controls.Outcome:
    """It changes the list, so it needs that right, too."""
    if not request.user.has_perm("playout.change_playlist", channel):
        raise PermissionDenied
    return controls.insert(channel, Wish(told["asset"]), by=who(request), take=told["take"])
