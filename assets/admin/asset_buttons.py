"""The buttons on an asset's page, their dialog forms, and the bulk actions of the list."""

from typing import Any

from django import forms
from django.http import HttpRequest
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from assets.library import controls
from assets.models import Asset, AssetStep, Destination
from assets.views.media import make_link
from station.admin.buttons import BulkAction, Button
from station.rights import only_visible


class ReasonForm(BaseDialogForm):
    reason = forms.CharField(max_length=200, required=False, widget=UnfoldAdminTextInputWidget)


class WithdrawForm(BaseDialogForm):
    reason = forms.CharField(max_length=200, widget=UnfoldAdminTextInputWidget)
    replacement = forms.ModelChoiceField(
        Asset.objects.none(),
        required=False,
        widget=UnfoldAdminSelectWidget,
        help_text="Replaces this asset everywhere it is used. Leave empty to replace nothing.",
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


def _offer_assets(form: BaseDialogForm, name: str) -> None:
    """Offer usable assets of the same project that the user may see, without the asset itself."""
    asset = Asset.objects.filter(pk=form.object_id).first()
    rows = Asset.objects.usable().filter(project=asset.project_id if asset else None).exclude(pk=form.object_id)
    form.fields[name].queryset = only_visible(rows, form.request.user, "assets.view_asset")


def _address(request: HttpRequest) -> dict[str, Any]:
    return {"base": request.build_absolute_uri("/")}


BUTTONS = [
    Button(
        controls.process,
        "settings_suggest",
        "Process this asset again?",
        "The chosen steps are repeated. Existing results are kept until the new ones are ready.",
        submit="Process",
        form=StepsForm,
    ),
    Button(
        controls.deliver,
        "send",
        "Deliver this asset?",
        "It is delivered to the chosen destination once.",
        form=DestinationForm,
    ),
    Button(
        make_link,
        "link",
        "Create a link?",
        "Anyone with the link can watch this asset without logging in until the link expires.",
        submit="Create link",
        from_request=_address,
    ),
    Button(
        controls.hold,
        "lock",
        "Hold this asset?",
        "Retention does not delete it until it is released.",
        form=ReasonForm,
    ),
    Button(controls.release, "lock_open", "Release this asset?", "Retention may delete it again."),
    Button(
        controls.withdraw,
        "block",
        "Withdraw this asset?",
        "It can no longer be used or delivered.",
        form=WithdrawForm,
        variant=ActionVariant.DANGER,
    ),
    Button(
        controls.replace,
        "swap_horiz",
        "Replace this asset?",
        "The other asset takes its place everywhere it is used.",
        form=ReplaceForm,
    ),
    Button(controls.reinstate, "undo", "Use this asset again?", "It can be used and delivered again."),
    Button(controls.restore, "restore_from_trash", "Restore this asset?", "It is taken out of the trash."),
    Button(
        controls.trash,
        "delete",
        "Move this asset to the trash?",
        "It can be restored for some days. After that its files are deleted.",
        submit="Move to trash",
        form=ReasonForm,
        variant=ActionVariant.DANGER,
    ),
]
BULK_ACTIONS = [
    BulkAction(controls.hold, "held"),
    BulkAction(controls.trash, "moved to the trash"),
    BulkAction(controls.restore, "restored", label="Restore from the trash"),
    BulkAction(controls.process, "being processed"),
]
