"""`manage.py reseal`: encrypts every secret with the first of SEALING_KEYS, so that an old key can be removed."""

from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError

from station.sealing import CannotOpen, seal, unseal


def sealed_fields() -> list[tuple[Any, str]]:
    """Every sealed field of every app, found by its name, so that none is forgotten."""
    return [
        (model, field.name)
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if field.name.endswith("_sealed")
    ]


class Command(BaseCommand):
    help = "Encrypt every stored secret again with the first of SEALING_KEYS."

    def handle(self, *args: Any, **options: Any) -> None:
        done, lost = 0, list[str]()
        for model, field in sealed_fields():
            rows = model._base_manager.exclude(**{field: ""})
            for row in rows.iterator():
                sealed = getattr(row, field)
                try:
                    fresh = seal(unseal(sealed))
                except CannotOpen:
                    lost.append(f"{model._meta.verbose_name} {row}")
                    continue
                # Compare-and-set: a secret that is changed in this moment is already sealed with the first key.
                done += model._base_manager.filter(pk=row.pk, **{field: sealed}).update(**{field: fresh})
        self.stdout.write(f"{done} secrets encrypted again.")
        if lost:
            raise CommandError(f"No key opens the secrets of: {', '.join(lost)}. Enter them again.")
