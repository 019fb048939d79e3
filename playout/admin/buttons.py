"""The buttons on a channel's admin page."""

from typing import Any

from django import forms
from django.utils import timezone
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldBooleanSwitchWidget

from assets.models import Asset
from playout.channels import controls
from playout.lists.rundown import lists_of
from playout.models import Channel, PlaylistItem
from station.admin.buttons import Button

CLIPS_OFFERED = 300


class CueForm(BaseDialogForm):
    """The items of the channel's current list."""

    item = forms.ModelChoiceField(PlaylistItem.objects.none(), widget=UnfoldAdminSelectWidget)
    take = forms.BooleanField(label="Now, cutting the item on air", required=False, widget=UnfoldBooleanSwitchWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        channel = Channel.objects.filter(pk=self.object_id).first()
        lists = lists_of(channel, timezone.now()) if channel else []
        items = PlaylistItem.objects.filter(playlist__in=lists).select_related("asset", "source")
        self.fields["item"].queryset = items.order_by("playlist__on", "position", "id")


class InsertForm(BaseDialogForm):
    """The playable assets of the channel's project, the newest first."""

    asset = forms.ModelChoiceField(Asset.objects.none(), label="Clip", widget=UnfoldAdminSelectWidget)
    take = forms.BooleanField(label="Now, cutting the item on air", required=False, widget=UnfoldBooleanSwitchWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        channel = Channel.objects.filter(pk=self.object_id).first()
        if channel is not None:
            newest = Asset.objects.playable().filter(project=channel.project_id).order_by("-pk")[:CLIPS_OFFERED]
            self.fields["asset"].queryset = Asset.objects.filter(pk__in=[row.pk for row in newest]).order_by("-pk")


BUTTONS = [
    Button(
        controls.start,
        "play_circle",
        "Put the channel on air?",
        "It plays its list on all its outputs until you stop it.",
        name="start_channel",
        path="start",
        variant=ActionVariant.PRIMARY,
    ),
    Button(
        controls.stop,
        "stop_circle",
        "Take the channel off air?",
        "All its outputs stop sending.",
        name="stop_channel",
        path="stop",
        variant=ActionVariant.DANGER,
    ),
    Button(
        controls.play,
        "play_arrow",
        "Continue playing?",
        "The list continues where it was paused.",
        name="play_channel",
        path="play",
    ),
    Button(
        controls.pause,
        "pause",
        "Pause?",
        "The picture freezes, without sound, until Play.",
        name="pause_channel",
        path="pause",
    ),
    Button(
        controls.skip,
        "skip_next",
        "Skip to the next item?",
        "The item on air ends now. A pause ends too.",
        name="skip_channel",
        path="skip",
    ),
    Button(
        controls.cue,
        "playlist_play",
        "Which item is next?",
        "The list continues after it.",
        submit="Cue",
        label="Cue…",
        name="cue_channel",
        path="cue",
        form=CueForm,
    ),
    Button(
        controls.insert,
        "playlist_add",
        "Which clip?",
        "It follows the item on air and stays in the list.",
        submit="Insert",
        label="Insert…",
        name="insert_channel",
        path="insert",
        form=InsertForm,
    ),
    Button(
        controls.move,
        "sync_alt",
        "Move it to another machine?",
        "It is off air for a few seconds and continues at the right place.",
        name="move_channel",
        path="move",
    ),
]
