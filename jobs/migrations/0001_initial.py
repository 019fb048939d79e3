"""The tables of jobs, as of release 0.1.0."""

import django.core.serializers.json
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

# Hot tables: rows are rewritten in place where they fit, and vacuumed before they pile up.
HOT = """
ALTER TABLE jobs_run SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE jobs_jobcursor SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('station', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(editable=False, max_length=60, unique=True)),
                ('title', models.CharField(editable=False, max_length=120)),
                ('trigger', models.CharField(choices=[('every', 'at an interval'), ('cron', 'by cron expression'), ('queue', 'only when queued')], editable=False, max_length=6)),
                ('every_seconds', models.FloatField(blank=True, help_text='Counted from midnight UTC.', null=True)),
                ('delay_seconds', models.FloatField(default=0, editable=False)),
                ('cron', models.CharField(blank=True, max_length=100, verbose_name='cron expression')),
                ('zone', models.CharField(blank=True, max_length=40, verbose_name='time zone')),
                ('is_customised', models.BooleanField(default=False, editable=False)),
                ('is_declared', models.BooleanField(default=True, editable=False)),
                ('has_scopes', models.BooleanField(default=False, editable=False)),
                ('attempts', models.PositiveSmallIntegerField(default=1, editable=False)),
                ('is_reentrant', models.BooleanField(default=True, editable=False)),
                ('is_exclusive', models.BooleanField(default=False, editable=False)),
                ('catch_up_mode', models.CharField(default='latest', editable=False, max_length=6)),
                ('catch_up_window_seconds', models.FloatField(default=86400, editable=False)),
                ('catch_up_per_turn', models.PositiveIntegerField(default=10, editable=False)),
                ('is_paused', models.BooleanField(default=False, editable=False)),
                ('paused_by', models.CharField(blank=True, editable=False, max_length=150)),
                ('is_plannable', models.BooleanField(default=True, editable=False)),
                ('plan_error', models.TextField(blank=True, editable=False)),
            ],
            options={
                'ordering': ['name'],
                'permissions': [('operate_job', 'Can run, pause, retry and cancel jobs')],
            },
        ),
        migrations.CreateModel(
            name='Scheduler',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=120)),
                ('place', models.CharField(max_length=120)),
                ('pid', models.PositiveIntegerField()),
                ('pid_started', models.CharField(max_length=20)),
                ('version', models.CharField(blank=True, max_length=40)),
                ('declares', models.JSONField(default=dict)),
                ('started_at', models.DateTimeField()),
                ('heartbeat_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ['-started_at', '-id'],
                'constraints': [models.UniqueConstraint(fields=('place', 'pid', 'pid_started'), name='scheduler_once_per_process')],
            },
        ),
        migrations.CreateModel(
            name='JobWorker',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=120)),
                ('place', models.CharField(max_length=120)),
                ('pid', models.PositiveIntegerField()),
                ('pid_started', models.CharField(max_length=20)),
                ('version', models.CharField(blank=True, max_length=40)),
                ('declares', models.JSONField(default=dict)),
                ('started_at', models.DateTimeField()),
                ('heartbeat_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('heavy_slots', models.PositiveSmallIntegerField()),
                ('light_slots', models.PositiveSmallIntegerField()),
                ('only_jobs', models.JSONField(default=list)),
                ('ending', models.CharField(blank=True, choices=[('clean', 'ended'), ('crashed', 'crashed')], max_length=8)),
                ('runs_done', models.BigIntegerField(default=0)),
            ],
            options={
                'ordering': ['-started_at', '-id'],
                'indexes': [models.Index(condition=models.Q(('ended_at', None)), fields=['heartbeat_at'], name='jobworker_alive')],
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(editable=False, max_length=16)),
                ('state_since_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('deadline_at', models.DateTimeField(editable=False, null=True)),
                ('scope', models.CharField(blank=True, max_length=80)),
                ('owner', models.CharField(blank=True, max_length=60)),
                ('trigger', models.CharField(choices=[('plan', 'planned'), ('queue', 'queued'), ('manual', 'by hand'), ('backfill', 'filled in')], max_length=8)),
                ('planned_at', models.DateTimeField(null=True)),
                ('run_at', models.DateTimeField()),
                ('created_at', models.DateTimeField()),
                ('requested_by', models.CharField(blank=True, max_length=150)),
                ('priority', models.SmallIntegerField(default=0)),
                ('turn', models.BigIntegerField(default=0)),
                ('key', models.CharField(blank=True, max_length=120)),
                ('payload', models.JSONField(null=True)),
                ('unreadable_by', models.CharField(blank=True, max_length=16)),
                ('attempt', models.PositiveIntegerField(default=0)),
                ('attempts_forgiven', models.PositiveIntegerField(default=0)),
                ('attempts_allowed', models.PositiveSmallIntegerField(default=1)),
                ('is_reentrant', models.BooleanField(default=True)),
                ('is_exclusive', models.BooleanField(default=False)),
                ('token', models.UUIDField(null=True)),
                ('leased_until_at', models.DateTimeField(null=True)),
                ('heartbeat_at', models.DateTimeField(null=True)),
                ('worker_ref', models.BigIntegerField(null=True)),
                ('worker_name', models.CharField(blank=True, max_length=120)),
                ('claimed_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('orphaned_times', models.PositiveSmallIntegerField(default=0)),
                ('cancel_requested_at', models.DateTimeField(null=True)),
                ('cancel_reason', models.CharField(blank=True, max_length=200)),
                ('progress_percent', models.PositiveSmallIntegerField(null=True)),
                ('progress_text', models.CharField(blank=True, max_length=200)),
                ('result', models.JSONField(null=True)),
                ('error_code', models.CharField(blank=True, choices=[('run_timeout', 'took too long'), ('cancelled', 'cancelled'), ('lease_lost', 'taken over by another job worker'), ('handler_error', 'failed'), ('handler_crash', 'the process died'), ('stale_timeout', 'the job worker stopped responding'), ('worker_crashed', 'the job worker died'), ('worker_stopped', 'the job worker was stopped'), ('bad_payload', 'unreadable payload'), ('poison', 'killed its job worker repeatedly'), ('hopeless', 'cannot succeed')], max_length=16)),
                ('error', models.TextField(blank=True)),
                ('errors', models.JSONField(default=list)),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='jobs.job')),
                ('project', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='station.project')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='RunEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('old', models.CharField(max_length=16)),
                ('new', models.CharField(max_length=16)),
                ('by', models.CharField(max_length=150)),
                ('note', models.TextField(blank=True)),
                ('detail', models.JSONField(blank=True, default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('subject', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='events', to='jobs.run')),
            ],
            options={
                'ordering': ['at', 'id'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='JobCursor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('scope', models.CharField(blank=True, max_length=80)),
                ('next_at', models.DateTimeField()),
                ('is_active', models.BooleanField(default=True)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cursors', to='jobs.job')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('is_active', True)), fields=['job', 'next_at'], name='cursor_due')],
                'constraints': [models.UniqueConstraint(fields=('job', 'scope'), name='cursor_once_per_scope')],
            },
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('job'), models.OrderBy(models.F('priority'), descending=True), models.F('turn'), models.F('id'), condition=models.Q(('state', 'queued')), name='run_ready'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('state', 'queued'), ('trigger', 'manual')), fields=['job'], name='run_ready_by_hand'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('state', 'queued')), fields=['job', 'scope', '-turn'], name='run_queue_of_scope'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('state__in', ['scheduled', 'retry', 'queued'])), fields=['state', 'run_at'], name='run_waiting'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('state', 'running')), fields=['job', 'scope'], name='run_running'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('state__in', ['scheduled', 'queued', 'running', 'retry']), models.Q(('owner', ''), _negated=True)), fields=['owner'], name='run_of_owner'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('state__in', ['succeeded', 'failed', 'cancelled'])), fields=['job', 'finished_at'], name='run_finished'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(condition=models.Q(('planned_at__isnull', False)), fields=('job', 'scope', 'planned_at'), name='run_once_per_plan'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', ['scheduled', 'queued', 'running', 'retry']), models.Q(('key', ''), _negated=True)), fields=('job', 'key'), name='run_once_per_key'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(condition=models.Q(('is_exclusive', True), ('state', 'running')), fields=('job', 'scope'), name='run_alone_in_its_scope'),
        ),
        migrations.RunSQL(HOT, migrations.RunSQL.noop),
    ]
