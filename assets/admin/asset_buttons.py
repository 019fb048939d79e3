"""The buttons of an asset's page, the forms in their dialogs, and the actions of the list."""

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


def _offer_assets(form: BaseDialogForm, name: str) -> None:
    """Usable ones of the same project that the user may see, but not the asset itself."""
    asset = Asset.objects.filter(pk=form.object_id).first()
    rows = Asset.objects.usable().filter(project=asset.project_id if asset else None).exclude(pk=form.object_id)
    form.fields[name].queryset = only_visible(rows, form.request.user, "assets.view_asset")


def _address(request: HttpRequest) -> dict[str, Any]:
    return {"base": request.build_absolute_uri("/")}


BUTTONS = [
    Button(
        controls.process,
        "settings_suggest",
        "Process it again?",
        "What is chosen is made again. The old one stays until then.",
        submit="Process",
        form=StepsForm,
    ),
    Button(
        controls.deliver,
        "send",
        "Deliver it?",
        "It goes to the destination chosen, once.",
        form=DestinationForm,
    ),
    Button(
        make_link,
        "link",
        "Make a link?",
        "Whoever has it can watch this asset without a login until it expires.",
        submit="Make it",
        from_request=_address,
    ),
    Button(
        controls.hold,
        "lock",
        "Hold it?",
        "Retention does not delete it until it is released.",
        form=ReasonForm,
    ),
    Button(controls.release, "lock_open", "Release it?", "Retention may delete it again."),
    Button(
        controls.withdraw,
        "block",
        "Withdraw it?",
        "It may not be used or delivered any more.",
        form=WithdrawForm,
        variant=ActionVariant.DANGER,
    ),
    Button(
        controls.replace,
        "swap_horiz",
        "Replace it?",
        "Wherever it is used, the other one is put in its place.",
        form=ReplaceForm,
    ),
    Button(controls.reinstate, "undo", "Use it again?", "It may be used and delivered again."),
    Button(controls.restore, "restore_from_trash", "Restore it?", "It comes back from the trash."),
    Button(
        controls.trash,
        "delete",
        "To the trash?",
        "It can be restored for some days; then its files are deleted.",
        submit="Trash it",
        form=ReasonForm,
        variant=ActionVariant.DANGER,
    ),
]
BULK_ACTIONS = [
    BulkAction(controls.hold, "held"),
    BulkAction(controls.trash, "in the trash"),
    BulkAction(controls.restore, "restored", label="Restore from the trash"),
    BulkAction(controls.process, "being processed"),
]
