"""The tables of scheduling, as of release 0.1.0."""

import station.database.words
import django.contrib.postgres.indexes
import django.contrib.postgres.constraints
import django.core.serializers.json
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import scheduling.models.schedule
import scheduling.recorders.file_names
from django.db import migrations, models

# Hot tables: rows are rewritten in place where they fit, and vacuumed before they pile up.
HOT = """
ALTER TABLE scheduling_booking SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500);
ALTER TABLE scheduling_schedule SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('nodes', '0001_initial'),
        ('station', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Booking',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(editable=False, max_length=16)),
                ('state_since_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('deadline_at', models.DateTimeField(editable=False, null=True)),
                ('planned_start_at', models.DateTimeField(editable=False, null=True)),
                ('local_start', models.CharField(blank=True, editable=False, max_length=21)),
                ('title', models.CharField(blank=True, max_length=120)),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('opens_at', models.DateTimeField(editable=False)),
                ('closes_at', models.DateTimeField(editable=False)),
                ('requested_by', models.CharField(blank=True, editable=False, max_length=150)),
                ('is_manual', models.BooleanField(default=False, editable=False)),
                ('is_edited', models.BooleanField(default=False, editable=False)),
                ('pad_before_seconds', models.PositiveIntegerField(default=0, editable=False, verbose_name='padding before')),
                ('pad_after_seconds', models.PositiveIntegerField(default=0, editable=False, verbose_name='padding after')),
                ('late_start', models.CharField(choices=[('start', 'start late'), ('skip', 'skip it')], default='start', editable=False, max_length=8)),
                ('min_useful_seconds', models.PositiveIntegerField(default=30, editable=False)),
                ('max_late_seconds', models.PositiveIntegerField(editable=False, null=True)),
                ('skip_reason', models.CharField(blank=True, choices=[('conflict', 'the recorder is taken'), ('by_hand', 'skipped by hand'), ('paused', 'its schedule is paused'), ('late', 'too late to start'), ('replaced', 'replaced by another booking'), ('off', 'its recorder was switched off')], editable=False, max_length=10)),
                ('epoch', models.BigIntegerField(default=0, editable=False)),
                ('attempts', models.PositiveIntegerField(default=0, editable=False)),
                ('next_attempt_at', models.DateTimeField(editable=False, null=True)),
                ('errors', models.JSONField(default=list, editable=False)),
                ('claimed_at', models.DateTimeField(editable=False, null=True)),
                ('dispatched_at', models.DateTimeField(editable=False, null=True)),
                ('late_by_seconds', models.FloatField(editable=False, null=True)),
                ('container_at', models.DateTimeField(editable=False, null=True)),
                ('first_frame_at', models.DateTimeField(editable=False, null=True)),
                ('first_byte_at', models.DateTimeField(editable=False, null=True)),
                ('preflight', models.JSONField(default=list, editable=False)),
                ('preflight_at', models.DateTimeField(editable=False, null=True)),
                ('next_preflight_at', models.DateTimeField(editable=False, null=True)),
                ('folder', models.CharField(blank=True, editable=False, max_length=400)),
                ('file_name', models.CharField(blank=True, editable=False, max_length=200)),
                ('outcome', models.CharField(blank=True, editable=False, max_length=40)),
                ('parts', models.JSONField(default=list, editable=False)),
                ('growing', models.JSONField(default=list, editable=False)),
                ('gaps', models.JSONField(default=list, editable=False)),
                ('frames', models.BigIntegerField(default=0, editable=False)),
                ('size_bytes', models.BigIntegerField(default=0, editable=False)),
                ('filed_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'ordering': ['-starts_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='Leadership',
            fields=[
                ('epoch', models.BigIntegerField(primary_key=True, serialize=False)),
                ('holder', models.CharField(blank=True, max_length=200)),
                ('taken_at', models.DateTimeField(null=True)),
                ('released_at', models.DateTimeField(null=True)),
                ('turns', models.BigIntegerField(db_default=0)),
                ('worst_turn_seconds', models.FloatField(db_default=0.0)),
                ('turns_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name_plural': 'leadership',
                'ordering': ['-epoch'],
            },
        ),
        migrations.CreateModel(
            name='BookingEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('old', models.CharField(max_length=16)),
                ('new', models.CharField(max_length=16)),
                ('by', models.CharField(max_length=150)),
                ('note', models.TextField(blank=True)),
                ('detail', models.JSONField(blank=True, default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('subject', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='scheduling.booking')),
            ],
            options={
                'ordering': ['at', 'id'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='CalendarFeed',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token_hash', models.CharField(editable=False, max_length=64, unique=True)),
                ('created_at', models.DateTimeField(editable=False)),
                ('created_by', models.CharField(editable=False, max_length=150)),
                ('project', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='calendar_feed', to='station.project')),
            ],
            options={
                'verbose_name': 'calendar link',
            },
        ),
        migrations.CreateModel(
            name='Recorder',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80, unique=True)),
                ('source_type', models.CharField(choices=[('srt', 'SRT'), ('rtmp', 'RTMP'), ('rtp', 'RTP (MPEG-TS)'), ('udp', 'UDP (MPEG-TS)'), ('rtsp', 'RTSP'), ('hls', 'HLS'), ('decklink', 'DeckLink'), ('test', 'Test pattern')], max_length=10, verbose_name='type')),
                ('address', models.CharField(blank=True, help_text='Secrets in the address are stored encrypted when you save, and are not shown again.', max_length=500)),
                ('secrets_sealed', models.TextField(blank=True, editable=False)),
                ('programme', models.PositiveIntegerField(blank=True, help_text='The number of the programme, if the transport stream has several. Empty: all of them together.', null=True, validators=[django.core.validators.MaxValueValidator(65535)])),
                ('container', models.CharField(choices=[('mpegts', 'MPEG-TS'), ('fmp4', 'Fragmented MP4')], default='mpegts', help_text='MPEG-TS keeps every track of a transport stream. Fragmented MP4 keeps picture and sound only: no teletext, DVB subtitles or SCTE-35. The pre-flight check names what a source would lose.', max_length=10, verbose_name='file format')),
                ('split_minutes', models.PositiveSmallIntegerField(choices=[(0, 'no, one file'), (5, 'every 5 minutes'), (10, 'every 10 minutes'), (15, 'every 15 minutes'), (30, 'every 30 minutes'), (60, 'every hour')], default=0, help_text='Start a new file at round times in house time (at the next key frame), without losing a frame. The files stay one recording.', verbose_name='split by the clock')),
                ('picture_size', models.CharField(default='1280x720', help_text='For the test pattern and DeckLink. A network source keeps its own size.', max_length=11, validators=[django.core.validators.RegexValidator('^[1-9][0-9]{1,3}x[1-9][0-9]{1,3}$', 'Enter a size like 1280x720.')])),
                ('video_bitrate', models.CharField(default='4M', help_text='For sources that are not encoded: the test pattern and DeckLink.', max_length=6, validators=[django.core.validators.RegexValidator('^[1-9][0-9]{0,4}[kM]$', 'Enter a bit rate like 800k or 8M.')])),
                ('folder_template', models.CharField(default='{project}/{recorder}/{date}', help_text='{project} {recorder} {date} {year} {month} {day} {time} {booking}', max_length=200, validators=[scheduling.recorders.file_names.validate_template])),
                ('node_labels', models.CharField(blank=True, help_text='Labels the node must have, separated by spaces.', max_length=200, validators=[django.core.validators.RegexValidator('^[a-z0-9][a-z0-9_.=-]*( [a-z0-9][a-z0-9_.=-]*)*$', 'Use labels of a-z, 0-9, - . = _, separated by spaces.')])),
                ('pad_before_seconds', models.PositiveIntegerField(default=0, validators=[django.core.validators.MaxValueValidator(3600)])),
                ('pad_after_seconds', models.PositiveIntegerField(default=0, validators=[django.core.validators.MaxValueValidator(3600)])),
                ('is_active', models.BooleanField(default=True, help_text='An inactive recorder cannot be booked.')),
                ('node', models.ForeignKey(blank=True, help_text='Leave empty for any suitable node.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='nodes.node')),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='recorders', to='station.project')),
            ],
            options={
                'ordering': ['name'],
                'permissions': [('operate_recorder', 'Can start and stop recorders')],
            },
        ),
        migrations.AddField(
            model_name='booking',
            name='recorder',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='bookings', to='scheduling.recorder'),
        ),
        migrations.CreateModel(
            name='Schedule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80)),
                ('kind', models.CharField(choices=[('once', 'Once'), ('daily', 'Every day'), ('weekly', 'On weekdays'), ('cron', 'Cron expression')], default='daily', max_length=8, verbose_name='repeats')),
                ('zone', models.CharField(default=scheduling.models.schedule.house_zone_name, max_length=40, verbose_name='time zone')),
                ('first_on', models.DateField(verbose_name='first day')),
                ('start_time', models.TimeField(blank=True, help_text='Local time in the zone above. Not needed with a cron expression.', null=True)),
                ('length', models.DurationField(help_text='Hours:minutes:seconds, like 1:30:00.')),
                ('weekdays', models.CharField(blank=True, help_text='Digits from 0 (Monday) to 6 (Sunday).', max_length=7)),
                ('cron', models.CharField(blank=True, help_text='Minute, hour, day, month, weekday: 15 20 * * MON-FRI', max_length=100, verbose_name='cron expression')),
                ('until_on', models.DateField(blank=True, null=True, verbose_name='last day')),
                ('count', models.PositiveIntegerField(blank=True, help_text='Skipped recordings count too.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(10000)], verbose_name='how many times')),
                ('ends', models.CharField(choices=[('wall', 'at the local end time'), ('elapsed', 'after the exact length')], default='wall', help_text='Makes a difference only on the two days a year when the clocks change.', max_length=8, verbose_name='recording ends')),
                ('exceptions', models.JSONField(blank=True, default=list, editable=False)),
                ('pad_before_seconds', models.PositiveIntegerField(blank=True, help_text="Seconds. Leave empty to use the recorder's padding.", null=True, validators=[django.core.validators.MaxValueValidator(3600)], verbose_name='padding before')),
                ('pad_after_seconds', models.PositiveIntegerField(blank=True, help_text="Seconds. Leave empty to use the recorder's padding.", null=True, validators=[django.core.validators.MaxValueValidator(3600)], verbose_name='padding after')),
                ('late_start', models.CharField(choices=[('start', 'start late'), ('skip', 'skip it')], default='start', max_length=8, verbose_name='if it cannot start on time')),
                ('min_useful_seconds', models.PositiveIntegerField(default=30, help_text='A late start must leave at least this many seconds of the window.')),
                ('max_late_seconds', models.PositiveIntegerField(blank=True, help_text='Skip the recording if it would start later than this. Leave empty for no limit.', null=True)),
                ('overlap', models.CharField(choices=[('skip', 'skip this one'), ('queue', 'start when the recorder is free'), ('replace', 'replace the planned booking')], default='skip', max_length=8, verbose_name='if the recorder is taken')),
                ('is_paused', models.BooleanField(default=False, editable=False)),
                ('created_by', models.CharField(blank=True, editable=False, max_length=150)),
                ('plan_due_at', models.DateTimeField(editable=False, null=True)),
                ('planned_until_at', models.DateTimeField(editable=False, null=True)),
                ('plan_error', models.TextField(blank=True, editable=False)),
                ('recorder', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='schedules', to='scheduling.recorder')),
            ],
            options={
                'ordering': ['name', 'id'],
            },
        ),
        migrations.AddField(
            model_name='booking',
            name='schedule',
            field=models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='bookings', to='scheduling.schedule'),
        ),
        migrations.AddIndex(
            model_name='schedule',
            index=models.Index(condition=models.Q(('is_paused', False)), fields=['plan_due_at'], name='schedule_to_plan'),
        ),
        migrations.AddIndex(
            model_name='booking',
            index=models.Index(condition=models.Q(('state__in', ['starting', 'retry_wait', 'recording', 'stopping', 'cancelling'])), fields=['id'], name='booking_active'),
        ),
        migrations.AddIndex(
            model_name='booking',
            index=models.Index(condition=models.Q(('state', 'planned')), fields=['opens_at'], name='booking_to_arm'),
        ),
        migrations.AddIndex(
            model_name='booking',
            index=models.Index(condition=models.Q(('state', 'armed')), fields=['epoch'], name='booking_armed'),
        ),
        migrations.AddIndex(
            model_name='booking',
            index=models.Index(condition=models.Q(('next_preflight_at__isnull', False), ('state', 'planned')), fields=['next_preflight_at'], name='booking_preflight'),
        ),
        migrations.AddIndex(
            model_name='booking',
            index=models.Index(condition=models.Q(('filed_at', None), ('size_bytes__gt', 0), ('state__in', ['completed', 'partial', 'failed', 'cancelled'])), fields=['id'], name='booking_to_file'),
        ),
        migrations.AddIndex(
            model_name='booking',
            index=models.Index(fields=['starts_at'], name='booking_by_start'),
        ),
        migrations.AddConstraint(
            model_name='booking',
            constraint=models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('starts_at')), ('closes_at__gt', models.F('opens_at'))), name='booking_ends_after_start'),
        ),
        migrations.AddConstraint(
            model_name='booking',
            constraint=models.UniqueConstraint(fields=('schedule', 'planned_start_at'), name='booking_once_per_occurrence'),
        ),
        migrations.AddConstraint(
            model_name='booking',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(condition=models.Q(('state__in', ['planned', 'armed', 'starting', 'retry_wait', 'recording', 'stopping', 'cancelling'])), expressions=[(models.Func(models.F('recorder_id'), models.F('recorder_id'), models.Value('[]'), function='int8range'), '&&'), (models.Func(models.F('opens_at'), models.F('closes_at'), function='tstzrange'), '&&')], name='booking_no_overlap'),
        ),
        migrations.RunSQL(HOT, migrations.RunSQL.noop),
        migrations.AddIndex(
            model_name='booking',
            index=django.contrib.postgres.indexes.GinIndex(station.database.words.Words('title', 'requested_by', 'folder', 'file_name'), name='booking_words'),
        ),
    ]
