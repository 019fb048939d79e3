"""The read-only fields on an asset's page."""

from typing import Any

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from unfold.decorators import display

from assets.library import timeline, usage
from assets.models import Asset
from jobs.models import Run
from station.badges import badge, lines, stamp, state_badge
from station.clock import house_time, spoken

TRACKS = {
    "dvb_teletext": "teletext",
    "dvb_subtitle": "DVB subtitles",
    "scte_35": "SCTE-35 markers",
    "eia_608": "closed captions",
}


def megabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


class AssetFacts:
    """Mixin for AssetAdmin."""

    facts = ["media_shown", "state_shown", "made_shown", "marks_shown", "error_shown", "complete_shown", "gaps_shown"]
    facts += ["parts_shown", "technical_shown", "loudness_shown", "findings_shown", "steps_shown", "uses_shown"]
    facts += ["deliveries_shown", "checksum_shown", "length_shown", "format_shown"]

    @display(description="Picture")
    def media_shown(self, obj: Asset) -> SafeString:
        return mark_safe(render_to_string("assets/media.html", timeline.context_of(obj)))

    @display(description="Length", ordering="duration_seconds")
    def length_shown(self, obj: Asset) -> str:
        return spoken(obj.duration_seconds) if obj.duration_seconds else "–"

    @display(description="Complete", ordering="completeness_percent")
    def complete_shown(self, obj: Asset) -> SafeString | str:
        if obj.completeness_percent is None:
            return "–"
        colour = "green" if obj.is_complete else "amber"
        words = f"{obj.completeness_percent:.1f} %"
        return badge(words, colour) if obj.is_over else words

    @display(description="Format")
    def format_shown(self, obj: Asset) -> str:
        return obj.video_format or obj.audio_format or "–"

    @display(description="Created", ordering="created_at")
    def made_shown(self, obj: Asset) -> SafeString | str:
        when = house_time(obj.created_at)
        if obj.booking is None:
            return f"{when}, imported by {obj.created_by or 'an unknown user'}"
        url = reverse("admin:scheduling_booking_change", args=[obj.booking_id])
        return format_html('{}, <a class="text-link" href="{}">{}</a>', when, url, obj.booking)

    @display(description="Marks")
    def marks_shown(self, obj: Asset) -> SafeString | str:
        marks = []
        if obj.trashed_at:
            marks.append(
                format_html(
                    "{} {}", badge("trash", "grey"), f"deleted {stamp(obj.purge_at)}. Reason: {obj.trash_reason}"
                )
            )
        if obj.withdrawn_at:
            instead = f", replaced by {obj.replacement}" if obj.replacement else ""
            marks.append(format_html("{} {}", badge("withdrawn", "red"), f"{obj.withdraw_reason}{instead}"))
        if obj.held_at:
            marks.append(format_html("{} {}", badge("held", "blue"), f"by {obj.held_by} {obj.hold_reason}".strip()))
        return lines(marks) if marks else "–"

    @display(description="Error")
    def error_shown(self, obj: Asset) -> str:
        return obj.error or "–"

    @display(description="Gaps")
    def gaps_shown(self, obj: Asset) -> SafeString | str:
        if not obj.gaps:
            return "none"
        return lines(
            f"{house_time(gap.from_at)} – {house_time(gap.to_at)}: {gap.seconds:.1f} s, {gap.reason}"
            for gap in obj.read_gaps()
        )

    @display(description="Files")
    def parts_shown(self, obj: Asset) -> SafeString | str:
        rows = []
        for part in obj.parts.select_related("node"):
            url = reverse("media-original", args=[obj.pk, part.number])
            where = f"on {part.node}" if part.node else "in the library"
            words = f"{spoken(part.seconds)}, {megabytes(part.size_bytes)}, {where}"
            link = format_html('<a class="text-link" href="{}">{}</a> {}', url, part.path, words)
            rows.append(format_html("<s>{}</s>", part.path) if obj.state == Asset.State.DELETED else link)
        return lines(rows) if rows else "–"

    @display(description="Technical data")
    def technical_shown(self, obj: Asset) -> SafeString | str:
        facts: list[str] = []
        if obj.technical:
            facts.append(f"container {obj.technical.get('container', '?')}")
        for picture in obj.technical.get("pictures", []):
            fps = f", {picture['fps']:g} fps" if picture.get("fps") else ""
            order = "interlaced" if picture.get("is_interlaced") else "progressive"
            aspect = f", {picture['aspect']}" if picture.get("aspect") else ""
            facts.append(f"video {picture['codec']}, {picture['width']}x{picture['height']}{fps}, {order}{aspect}")
        for sound in obj.technical.get("sounds", []):
            language = f", {sound['language']}" if sound.get("language") else ""
            facts.append(f"audio {sound['codec']}, {sound['sample_rate']} Hz, {sound['layout']}{language}")
        for other in obj.technical.get("others", []):
            language = f", {other['language']}" if other.get("language") else ""
            facts.append(f"{TRACKS.get(other['codec'], other['codec'])}{language}")
        if obj.timecode:
            facts.append(f"timecode {obj.timecode}")
        if obj.size_bytes:
            facts.append(f"{megabytes(obj.size_bytes)}, {obj.frames} frames")
        return lines(facts) if facts else "–"

    @display(description="Loudness")
    def loudness_shown(self, obj: Asset) -> str:
        if obj.loudness_lufs is None:
            has_run = obj.steps.filter(kind="loudness", done_at__isnull=False).exists()
            return "not measurable (silence)" if has_run else "–"
        words = f"{obj.loudness_lufs:.1f} LUFS"
        if obj.loudness_range_lu is not None:
            words += f", range {obj.loudness_range_lu:.1f} LU"
        if obj.true_peak_dbtp is not None:
            words += f", true peak {obj.true_peak_dbtp:.1f} dBTP"
        return words

    @display(description="Black, silence, freeze")
    def findings_shown(self, obj: Asset) -> SafeString | str:
        if not obj.findings:
            return "none" if obj.steps.filter(kind="report", done_at__isnull=False).exists() else "–"
        shown = [
            f"{timeline.clock(found['from_seconds'])} – {timeline.clock(found['to_seconds'])}: {found['kind']}"
            for found in obj.findings[:40]
        ]
        if len(obj.findings) > 40:
            shown.append(f"and {len(obj.findings) - 40} more")
        return lines(shown)

    @display(description="Steps")
    def steps_shown(self, obj: Asset) -> SafeString | str:
        steps = list(obj.steps.all())
        runs = Run.objects.in_bulk([step.run_ref for step in steps if step.run_ref])
        return lines(self._step(step, runs.get(step.run_ref or 0)) for step in steps) if steps else "–"

    def _step(self, step: Any, run: Run | None) -> SafeString:
        if step.done_at:
            shown, words = badge("done", "green"), stamp(step.done_at)
        elif step.failed_at:
            shown, words = badge("failed", "red"), step.error.partition("\n")[0][:200]
        else:
            shown = state_badge(run) if run else badge("waiting", "blue")
            percent = f"{run.progress_percent} %" if run and run.progress_percent is not None else ""
            words = f"{percent} {run.progress_text if run else ''}".strip()
        link = ""
        if run is not None:
            url = reverse("admin:jobs_run_change", args=[run.pk])
            link = format_html(' <a class="text-link" href="{}">run {}</a>', url, run.pk)
        return format_html("{} {} {}{}", shown, step, words, link)

    @display(description="Used in")
    def uses_shown(self, obj: Asset) -> SafeString | str:
        found = usage.uses_of([obj.pk])[obj.pk]
        if not found:
            return "nowhere"
        return lines(
            format_html('<a class="text-link" href="{}">{}</a>', use.url, use.what) if use.url else use.what
            for use in found
        )

    @display(description="Deliveries")
    def deliveries_shown(self, obj: Asset) -> SafeString | str:
        rows = list(obj.deliveries.select_related("destination").prefetch_related("log"))
        if not rows:
            return "none"
        shown: list[SafeString | str] = []
        for delivery in rows:
            url = reverse("admin:assets_delivery_change", args=[delivery.pk])
            shown.append(
                format_html(
                    '{} <a class="text-link" href="{}">{}</a> {}',
                    state_badge(delivery),
                    url,
                    delivery.destination,
                    f"{delivery.attempts} attempts" + (f", as {delivery.external_id}" if delivery.external_id else ""),
                )
            )
            shown += [
                f"{attempt.number}. {stamp(attempt.began_at)} {attempt.text.partition(chr(10))[0][:160]}"
                for attempt in delivery.log.all()
            ]
        return lines(shown)

    @display(description="SHA-256")
    def checksum_shown(self, obj: Asset) -> SafeString | str:
        return format_html('<code class="airlock-trace">{}</code>', obj.sha256) if obj.sha256 else "–"
