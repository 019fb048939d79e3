"""The tables of nodes, as of release 0.1.0."""

import station.database.words
import django.contrib.postgres.indexes
import django.contrib.postgres.constraints
import django.core.serializers.json
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import nodes.addresses
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('station', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Node',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state_since_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('deadline_at', models.DateTimeField(editable=False, null=True)),
                ('state', models.CharField(default='unknown', editable=False, max_length=16)),
                ('name', models.SlugField(max_length=40, unique=True)),
                ('address', models.CharField(help_text='process, unix:///var/run/docker.sock, ssh://user@host or tcp://host:2376 (mutual TLS).', max_length=200, unique=True, validators=[nodes.addresses.validate_node_address])),
                ('control_host', models.CharField(blank=True, help_text="The host at which this node's media workers answer over HTTP, if it differs from the address.", max_length=200)),
                ('control_port_from', models.PositiveIntegerField(default=9600, validators=[django.core.validators.MinValueValidator(1024), django.core.validators.MaxValueValidator(65000)])),
                ('control_port_count', models.PositiveIntegerField(default=200, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(2000)])),
                ('media_dir', models.CharField(help_text='The folder on that machine to which its media workers write.', max_length=400, validators=[django.core.validators.RegexValidator('^/(?!.*(^|/)\\.\\.(/|$)).+', 'Enter the full path of a folder, like /srv/media.')])),
                ('seen_dir', models.CharField(blank=True, help_text='The path at which the web and the job workers see that folder (a mount). Leave empty if it is the same.', max_length=400, validators=[django.core.validators.RegexValidator('^/(?!.*(^|/)\\.\\.(/|$)).+', 'Enter the full path of a folder, like /mnt/media.')], verbose_name='seen here at')),
                ('labels', models.CharField(blank=True, help_text='Labels separated by spaces, e.g. studio-a decklink', max_length=200, validators=[django.core.validators.RegexValidator('^[a-z0-9][a-z0-9_.=-]*( [a-z0-9][a-z0-9_.=-]*)*$', 'Use labels of a-z, 0-9, - . = _, separated by spaces.')])),
                ('network', models.CharField(default='host', help_text='The Docker network of the media workers. Use host for multicast and listeners.', max_length=60, validators=[django.core.validators.RegexValidator('^[a-zA-Z0-9][a-zA-Z0-9_.-]*$', 'Enter the name of a Docker network, like host or bridge.')])),
                ('max_workloads', models.PositiveIntegerField(default=16)),
                ('is_draining', models.BooleanField(default=False, help_text='The node gets no new work. Running workloads continue until they end.')),
                ('process_home', models.CharField(blank=True, editable=False, max_length=300)),
                ('missed_checks', models.PositiveIntegerField(default=0, editable=False)),
                ('last_seen_at', models.DateTimeField(editable=False, null=True)),
                ('last_error', models.TextField(blank=True, editable=False)),
                ('engine_version', models.CharField(blank=True, editable=False, max_length=60)),
                ('free_bytes', models.BigIntegerField(editable=False, null=True)),
                ('total_bytes', models.BigIntegerField(editable=False, null=True)),
                ('disk_checked_at', models.DateTimeField(editable=False, null=True)),
                ('clock_offset_seconds', models.FloatField(editable=False, null=True)),
                ('clock_uncertainty_seconds', models.FloatField(editable=False, null=True)),
                ('clock_measured_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='NodeEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('old', models.CharField(max_length=16)),
                ('new', models.CharField(max_length=16)),
                ('by', models.CharField(max_length=150)),
                ('note', models.TextField(blank=True)),
                ('detail', models.JSONField(blank=True, default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('subject', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='nodes.node')),
            ],
            options={
                'ordering': ['at', 'id'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Port',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('decklink', 'DeckLink device'), ('udp', 'UDP port (SRT, RTP and UDP listeners)'), ('tcp', 'TCP port (RTMP listeners)')], max_length=10)),
                ('number', models.PositiveIntegerField()),
                ('note', models.CharField(blank=True, max_length=100)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='ports', to='nodes.node')),
            ],
            options={
                'ordering': ['node', 'kind', 'number'],
            },
        ),
        migrations.CreateModel(
            name='Reservation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('owner', models.CharField(max_length=60)),
                ('holder', models.CharField(help_text='The name of the owner.', max_length=200)),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField(blank=True, null=True)),
                ('released_at', models.DateTimeField(blank=True, null=True)),
                ('is_cut_short', models.BooleanField(default=False)),
                ('port', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reservations', to='nodes.port')),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='station.project')),
            ],
            options={
                'ordering': ['-starts_at'],
            },
        ),
        migrations.CreateModel(
            name='Workload',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(editable=False, max_length=16)),
                ('state_since_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('deadline_at', models.DateTimeField(editable=False, null=True)),
                ('owner', models.CharField(max_length=60)),
                ('generation', models.PositiveIntegerField()),
                ('name', models.CharField(max_length=120, unique=True)),
                ('program', models.CharField(max_length=20)),
                ('spec', models.JSONField(default=dict)),
                ('secrets_sealed', models.TextField(blank=True, editable=False)),
                ('control_port', models.PositiveIntegerField()),
                ('is_wanted', models.BooleanField(default=True)),
                ('poll_seconds', models.FloatField(default=2.0)),
                ('silence_seconds', models.FloatField(null=True)),
                ('is_fenced', models.BooleanField(default=False)),
                ('memory_mb', models.PositiveIntegerField(default=1024)),
                ('epoch', models.BigIntegerField(default=0)),
                ('leased_until_at', models.DateTimeField(editable=False, null=True)),
                ('lease_epoch', models.BigIntegerField(default=0, editable=False)),
                ('created_at', models.DateTimeField()),
                ('called_at', models.DateTimeField(null=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('heartbeat_at', models.DateTimeField(null=True)),
                ('missed_looks', models.PositiveIntegerField(default=0)),
                ('progress_at', models.DateTimeField(null=True)),
                ('progress', models.JSONField(default=dict)),
                ('stop_signals', models.PositiveSmallIntegerField(default=0)),
                ('signalled_at', models.DateTimeField(null=True)),
                ('exit_code', models.IntegerField(null=True)),
                ('exit_reason', models.CharField(blank=True, max_length=40)),
                ('error', models.TextField(blank=True)),
                ('log_tail', models.TextField(blank=True)),
                ('removed_at', models.DateTimeField(null=True)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='workloads', to='nodes.node')),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='station.project')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='WorkloadEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('old', models.CharField(max_length=16)),
                ('new', models.CharField(max_length=16)),
                ('by', models.CharField(max_length=150)),
                ('note', models.TextField(blank=True)),
                ('detail', models.JSONField(blank=True, default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('subject', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='nodes.workload')),
            ],
            options={
                'ordering': ['at', 'id'],
                'abstract': False,
            },
        ),
        migrations.AddConstraint(
            model_name='port',
            constraint=models.UniqueConstraint(fields=('node', 'kind', 'number'), name='port_once_per_node'),
        ),
        migrations.AddIndex(
            model_name='reservation',
            index=models.Index(condition=models.Q(('released_at', None)), fields=['owner'], name='reservation_of_owner'),
        ),
        migrations.AddConstraint(
            model_name='reservation',
            constraint=models.CheckConstraint(condition=models.Q(('ends_at', None), ('ends_at__gt', models.F('starts_at')), _connector='OR'), name='reservation_ends_after_start'),
        ),
        migrations.AddConstraint(
            model_name='reservation',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(condition=models.Q(('released_at', None)), expressions=[(models.Func(models.F('port_id'), models.F('port_id'), models.Value('[]'), function='int8range'), '&&'), (models.Func(models.F('starts_at'), models.F('ends_at'), function='tstzrange'), '&&')], name='reservation_one_holder'),
        ),
        migrations.AddIndex(
            model_name='workload',
            index=models.Index(condition=models.Q(('removed_at', None)), fields=['node'], name='workload_to_look_at'),
        ),
        migrations.AddConstraint(
            model_name='workload',
            constraint=models.UniqueConstraint(fields=('owner', 'generation'), name='workload_once_per_generation'),
        ),
        migrations.AddConstraint(
            model_name='workload',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', ['requested', 'starting', 'running', 'stopping'])), fields=('node', 'control_port'), name='workload_control_port_alone'),
        ),
        migrations.AddConstraint(
            model_name='workload',
            constraint=models.UniqueConstraint(condition=models.Q(('is_wanted', True), ('state__in', ['requested', 'starting', 'running', 'stopping'])), fields=('owner',), name='workload_one_wanted'),
        ),
        migrations.AddIndex(
            model_name='workload',
            index=django.contrib.postgres.indexes.GinIndex(station.database.words.Words('name', 'owner'), name='workload_words'),
        ),
        migrations.AddIndex(
            model_name='reservation',
            index=django.contrib.postgres.indexes.GinIndex(station.database.words.Words('holder', 'owner'), name='reservation_words'),
        ),
    ]
