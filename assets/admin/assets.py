"""The library: what there is, how it looks and sounds, what is missing of it, where it went, what can be done."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from assets.admin.asset_facts import AssetFacts
from assets.delivery import deliveries
from assets.files import locations
from assets.library import retention, usage
from assets.models import Asset, AssetEvent, AssetStep, Destination
from assets.processing import steps as processing
from assets.views.media import link_to
from station import audit
from station.admin.base import EventInline, MachineAdmin, VisibleFilter, dialog, who
from station.admin.operating import Operated
from station.clock import database_now
from station.rights import only_visible

State = Asset.State
# An image of nothing, until the first still is there.
BLANK = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="


class PlaceFilter(admin.SimpleListFilter):
    """The library by default; the trash and what is withdrawn on request."""

    title = "where"
    parameter_name = "where"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("trash", "in the trash"), ("withdrawn", "withdrawn"), ("held", "held"), ("deleted", "deleted")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Asset]) -> QuerySet[Asset]:
        if self.value() == "trash":
            return queryset.filter(trashed_at__isnull=False).exclude(state=State.DELETED)
        if self.value() == "withdrawn":
            return queryset.filter(withdrawn_at__isnull=False, trashed_at=None)
        if self.value() == "held":
            return queryset.filter(held_at__isnull=False)
        if self.value() == "deleted":
            return queryset.filter(state=State.DELETED)
        return queryset.filter(trashed_at=None).exclude(state=State.DELETED)


class ReasonForm(BaseDialogForm):
    reason = forms.CharField(max_length=200, required=False, widget=UnfoldAdminTextInputWidget)


class WithdrawForm(BaseDialogForm):
    reason = forms.CharField(max_length=200, widget=UnfoldAdminTextInputWidget)
    replacement = forms.ModelChoiceField(
        Asset.objects.none(),
        required=False,
        widget=UnfoldAdminSelectWidget,
        help_text="Put in its place wherever it is used. Empty: nothing is.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer_assets(self, "replacement")


class ReplaceForm(BaseDialogForm):
    replacement = forms.ModelChoiceField(Asset.objects.none(), widget=UnfoldAdminSelectWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer_assets(self, "replacement")


class StepsForm(BaseDialogForm):
    steps = forms.MultipleChoiceField(
        choices=AssetStep.Kind.choices, widget=forms.CheckboxSelectMultiple, initial=[AssetStep.Kind.PROBE]
    )


class DestinationForm(BaseDialogForm):
    destination = forms.ModelChoiceField(Destination.objects.none(), widget=UnfoldAdminSelectWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        asset = Asset.objects.filter(pk=self.object_id).first()
        rows = Destination.objects.filter(project=asset.project_id if asset else None, is_active=True)
        self.fields["destination"].queryset = rows


def _is_busy(asset: Asset) -> bool:
    """In the trash, or its recording still runs."""
    return asset.is_trashed or asset.is_being_recorded


def _offer_assets(form: BaseDialogForm, name: str) -> None:
    """Usable ones of the same project that the user may see, but not the asset itself."""
    asset = Asset.objects.filter(pk=form.object_id).first()
    rows = Asset.objects.usable().filter(project=asset.project_id if asset else None).exclude(pk=form.object_id)
    form.fields[name].queryset = only_visible(rows, form.request.user, "assets.view_asset")


def with_form(title: str, description: str, submit: str, form: type[BaseDialogForm]) -> dict[str, Any]:
    return {**dialog(title, description, submit), "form_class": form}


class AssetEventInline(EventInline):
    model = AssetEvent


@admin.register(Asset)
class AssetAdmin(AssetFacts, Operated, MachineAdmin):
    operate_permission = "assets.operate_asset"
    possible = {
        "process": lambda asset: asset.state in {*Asset.FINISHED, State.ERROR} and not _is_busy(asset),
        "deliver": lambda asset: asset.is_usable,
        "hold": lambda asset: asset.held_at is None and asset.state != State.DELETED,
        "release": lambda asset: asset.held_at is not None,
        "withdraw": lambda asset: asset.withdrawn_at is None and asset.state != State.DELETED,
        "replace": lambda asset: asset.state != State.DELETED,
        "reinstate": lambda asset: asset.withdrawn_at is not None and asset.state != State.DELETED,
        "trash": lambda asset: asset.is_over and not _is_busy(asset) and asset.state != State.DELETED,
        "restore": lambda asset: asset.is_trashed and asset.state != State.DELETED,
        "link": lambda asset: asset.state != State.DELETED and not asset.is_trashed and not asset.withdrawn_at,
    }
    list_display = ["poster_shown", "title", "state_shown", "length_shown", "complete_shown", "format_shown"]
    list_display += ["made_shown", "project", "marks_shown"]
    list_display_links = ["title"]
    list_filter = [PlaceFilter, "state", "origin", ("project", VisibleFilter)]
    list_select_related = ["project", "booking"]
    search_fields = ["title", "sha256", "parts__path", "booking__recorder__name"]
    date_hierarchy = "created_at"
    list_per_page = 50
    inlines = [AssetEventInline]
    actions = ["hold_selected", "trash_selected", "restore_selected", "process_selected"]
    actions_detail = ["process", "deliver", "link", "hold", "release", "withdraw", "replace", "reinstate"]
    actions_detail += ["restore", "trash"]
    readonly_fields = [*AssetFacts.facts, "project"]
    fieldsets = [
        (None, {"fields": ["media_shown"]}),
        ("What it is", {"fields": ["title", "state_shown", "project", "made_shown", "marks_shown", "error_shown"]}),
        ("Complete?", {"fields": ["complete_shown", "gaps_shown", "parts_shown"]}),
        ("How it looks and sounds", {"fields": ["technical_shown", "loudness_shown", "findings_shown"]}),
        ("Processing", {"fields": ["steps_shown"]}),
        ("Where it is", {"fields": ["uses_shown", "deliveries_shown", "checksum_shown"]}),
    ]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # recordings come by themselves, files through "Import media"

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # to the trash: what used it, and who threw it away, stays on record

    def get_queryset(self, request: HttpRequest) -> QuerySet[Asset]:
        return super().get_queryset(request).select_related("project", "booking__recorder", "replacement")

    def save_model(self, request: HttpRequest, obj: Asset, form: Any, change: bool) -> None:
        """Only what was typed: a worker may write the rest of the row in this moment."""
        before = Asset.objects.get(pk=obj.pk).title
        Asset.objects.filter(pk=obj.pk).update(title=obj.title)
        audit.record(who(request), "change", obj, before={"title": before}, after={"title": obj.title})

    # --- what can be done ---

    @action(
        description="Process again",
        icon="settings_suggest",
        permissions=["process"],
        url_path="process",
        dialog=with_form(
            "Process it again?", "What is chosen is made again. The old one stays until then.", "Process", StepsForm
        ),
    )
    def process(self, request: HttpRequest, form: Any, object_id: int) -> HttpResponse:
        kinds = form.cleaned_data["steps"]
        return self.do(request, object_id, "process", lambda asset: self._process(request, asset, kinds))

    @action(
        description="Deliver",
        icon="send",
        permissions=["deliver"],
        url_path="deliver",
        dialog=with_form("Deliver it?", "It goes to the destination chosen, once.", "Deliver", DestinationForm),
    )
    def deliver(self, request: HttpRequest, form: Any, object_id: int) -> HttpResponse:
        destination = form.cleaned_data["destination"]

        def act(asset: Asset) -> tuple[bool, str]:
            now = database_now()
            if deliveries.want(asset, destination, now=now, by=who(request)):
                return True, f"it is on its way to {destination}"
            delivery = asset.deliveries.get(destination=destination)
            if deliveries.again(delivery, now=now, by=who(request)):
                return True, f"it is on its way to {destination} again"
            return False, f"it is on its way to {destination} already"

        return self.do(request, object_id, "deliver", act)

    @action(
        description="Link for a player",
        icon="link",
        permissions=["link"],
        url_path="link",
        dialog=dialog(
            "Make a link?", "Whoever has it can watch this asset without a login until it expires.", "Make it"
        ),
    )
    def link(self, request: HttpRequest, form: Any, object_id: int) -> HttpResponse:
        def act(asset: Asset) -> tuple[bool, str]:
            name = "index.m3u8" if asset.state == State.LIVE else locations.PROXY
            return True, f"the link: {request.build_absolute_uri(link_to(asset, name))}"

        return self.do(request, object_id, "link", act)

    @action(
        description="Hold",
        icon="lock",
        permissions=["hold"],
        url_path="hold",
        dialog=with_form("Hold it?", "Retention leaves it alone until it is released.", "Hold", ReasonForm),
    )
    def hold(self, request: HttpRequest, form: Any, object_id: int) -> HttpResponse:
        reason = form.cleaned_data["reason"]
        return self.do(request, object_id, "hold", lambda asset: self._hold(request, asset, reason))

    @action(
        description="Release",
        icon="lock_open",
        permissions=["release"],
        url_path="release",
        dialog=dialog("Release it?", "Retention may let it go again.", "Release"),
    )
    def release(self, request: HttpRequest, form: Any, object_id: int) -> HttpResponse:
        return self.do(
            request,
            object_id,
            "release",
            lambda asset: _told(lambda: retention.release(asset, now=database_now(), by=who(request)), "released"),
        )

    @action(
        description="Withdraw",
        icon="block",
        permissions=["withdraw"],
        url_path="withdraw",
        variant=ActionVariant.DANGER,
        dialog=with_form("Withdraw it?", "It may not be used or delivered any more.", "Withdraw", WithdrawForm),
    )
    def withdraw(self, request: HttpRequest, form: Any, object_id: int) -> HttpResponse:
        told = form.cleaned_data

        def act(asset: Asset) -> tuple[bool, str]:
            try:
                count = usage.withdraw(
                    asset, reason=told["reason"], replacement=told["replacement"], now=database_now(), by=who(request)
                )
            except usage.NotPossible as fault:
                return False, str(fault)
            return True, "withdrawn" + (f"; {told['replacement']} is in its place {count} times" if count else "")

        return self.do(request, object_id, "withdraw", act)

    @action(
        description="Replace",
        icon="swap_horiz",
        permissions=["replace"],
        url_path="replace",
        dialog=with_form(
            "Replace it?", "Wherever it is used, the other one is put in its place.", "Replace", ReplaceForm
        ),
    )
    def replace(self, request: HttpRequest, form: Any, object_id: int) -> HttpResponse:
        other = form.cleaned_data["replacement"]

        def act(asset: Asset) -> tuple[bool, str]:
            try:
                count = usage.replace_everywhere(asset, other, now=database_now(), by=who(request))
            except usage.NotPossible as fault:
                return False, str(fault)
            return True, f"{other} is in its place {count} times"

        return self.do(request, object_id, "replace", act)

    @action(
        description="Use again",
        icon="undo",
        permissions=["reinstate"],
        url_path="reinstate",
        dialog=dialog("Use it again?", "It may be used and delivered again.", "Use again"),
    )
    def reinstate(self, request: HttpRequest, form: Any, object_id: int) -> HttpResponse:
        return self.do(
            request,
            object_id,
            "reinstate",
            lambda asset: _told(
                lambda: usage.restore(asset, now=database_now(), by=who(request)), "it may be used again"
            ),
        )

    @action(
        description="Restore",
        icon="restore_from_trash",
        permissions=["restore"],
        url_path="restore",
        dialog=dialog("Restore it?", "It comes back from the trash.", "Restore"),
    )
    def restore(self, request: HttpRequest, form: Any, object_id: int) -> HttpResponse:
        return self.do(request, object_id, "restore", lambda asset: self._restore(request, asset))

    @action(
        description="To the trash",
        icon="delete",
        permissions=["trash"],
        url_path="trash",
        variant=ActionVariant.DANGER,
        dialog=with_form(
            "To the trash?", "It can be restored for some days; then its files are deleted.", "Trash it", ReasonForm
        ),
    )
    def trash(self, request: HttpRequest, form: Any, object_id: int) -> HttpResponse:
        reason = form.cleaned_data["reason"]
        return self.do(request, object_id, "trash", lambda asset: self._trash(request, asset, reason))

    # --- the same for many ---

    @admin.action(description="Hold", permissions=["operate"])
    def hold_selected(self, request: HttpRequest, queryset: QuerySet[Asset]) -> None:
        self.do_all(request, queryset, "hold", lambda asset: self._hold(request, asset, ""), "held")

    @admin.action(description="To the trash", permissions=["operate"])
    def trash_selected(self, request: HttpRequest, queryset: QuerySet[Asset]) -> None:
        self.do_all(request, queryset, "trash", lambda asset: self._trash(request, asset, ""), "in the trash")

    @admin.action(description="Restore from the trash", permissions=["operate"])
    def restore_selected(self, request: HttpRequest, queryset: QuerySet[Asset]) -> None:
        self.do_all(request, queryset, "restore", lambda asset: self._restore(request, asset), "restored")

    @admin.action(description="Process again", permissions=["operate"])
    def process_selected(self, request: HttpRequest, queryset: QuerySet[Asset]) -> None:
        kinds = [str(kind) for kind in AssetStep.Kind]
        self.do_all(request, queryset, "process", lambda asset: self._process(request, asset, kinds), "being processed")

    def _process(self, request: HttpRequest, asset: Asset, kinds: list[str]) -> tuple[bool, str]:
        count = processing.again(asset, processing.fitting(asset, kinds), now=database_now(), by=who(request))
        return bool(
            count
        ), f"{count} steps are queued" if count else "everything chosen is under way, or does not apply"

    def _hold(self, request: HttpRequest, asset: Asset, reason: str) -> tuple[bool, str]:
        return _told(lambda: retention.hold(asset, reason=reason, now=database_now(), by=who(request)), "held")

    def _trash(self, request: HttpRequest, asset: Asset, reason: str) -> tuple[bool, str]:
        words = reason or f"thrown away by {who(request)}"
        return _told(lambda: retention.trash(asset, reason=words, now=database_now(), by=who(request)), "in the trash")

    def _restore(self, request: HttpRequest, asset: Asset) -> tuple[bool, str]:
        return _told(lambda: retention.restore(asset, now=database_now(), by=who(request)), "restored")

    @display(description="Poster")
    def poster_shown(self, obj: Asset) -> SafeString:
        if obj.state == State.LIVE and obj.booking_id:
            live = reverse("booking-frame", args=[obj.booking_id])
            return format_html('<img class="airlock-thumb" data-live-src="{}" src="{}" alt="">', live, BLANK)
        if locations.product(obj.pk, locations.POSTER) is None:
            return mark_safe('<span class="airlock-thumb" aria-hidden="true"></span>')
        url = reverse("media-product", args=[obj.pk, locations.POSTER])
        return format_html('<img class="airlock-thumb" src="{}" alt="" loading="lazy">', url)


def _told(act: Any, done: str) -> tuple[bool, str]:
    """A refusal in words instead of an exception."""
    try:
        act()
    except (retention.NotPossible, usage.NotPossible) as fault:
        return False, str(fault)
    return True, done
