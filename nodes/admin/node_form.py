"""The form of a node: where a node is cannot be changed while media workers live there."""

from typing import Any

from django import forms

from nodes.models import Node, Workload
from station.database.locks import Queue, queue_for

# The engine and its keys (NODE_KEYS_DIR/<name>) are found by these. Changed, we would look for the media workers of the
# old engine in the new one, find none, and replace them while they go on.
FIXED = ("name", "address")
SHOWN = 5


class NodeForm(forms.ModelForm):
    class Meta:
        model = Node
        exclude: list[str] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            # "Changed" means since the page was opened: what others changed meanwhile is not changed back.
            field.show_hidden_initial = True

    def clean(self) -> dict[str, Any]:
        """The admin calls this inside the transaction of the save: starts on this node wait until it is over."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.instance.pk is None:
            return cleaned
        stored = Node.objects.filter(pk=self.instance.pk).values(*FIXED).first() or {}
        moved = [name for name in FIXED if name in self.changed_data and cleaned.get(name) != stored.get(name)]
        if moved:
            queue_for(Queue.NODE, self.instance.pk)
            reason = why_fixed(self.instance)
            for name in moved if reason else ():
                self.add_error(name, reason)
        return cleaned


def why_fixed(node: Node) -> str:
    """Empty if nothing lives on the node, otherwise what does and what to do about it."""
    rows = list(Workload.objects.to_look_at().filter(node=node).order_by("pk")[: SHOWN + 1])
    if not rows:
        return ""
    names = ", ".join(f"{row.owner} ({row.state_word})" for row in rows[:SHOWN]) + (", …" if len(rows) > SHOWN else "")
    return (
        f"This cannot be changed while media workers are on this node: {names}. Airlock would lose them, and they "
        "would go on. Stop them, or drain the node and wait until they have ended. If the machine is gone for good, "
        "use the button “Give up what ran there” first."
    )
