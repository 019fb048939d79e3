"""The tables of assets, as of release 0.1.0."""

import station.database.words
import django.contrib.postgres.indexes
import django.core.serializers.json
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('nodes', '0001_initial'),
        ('scheduling', '0001_initial'),
        ('station', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Asset',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(editable=False, max_length=16)),
                ('state_since_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('deadline_at', models.DateTimeField(editable=False, null=True)),
                ('title', models.CharField(max_length=200)),
                ('origin', models.CharField(choices=[('recording', 'Recording'), ('import', 'imported')], editable=False, max_length=9)),
                ('created_at', models.DateTimeField(editable=False)),
                ('created_by', models.CharField(blank=True, editable=False, max_length=150)),
                ('wanted_from_at', models.DateTimeField(editable=False, null=True)),
                ('wanted_until_at', models.DateTimeField(editable=False, null=True)),
                ('gaps', models.JSONField(default=list, editable=False)),
                ('part_count', models.PositiveIntegerField(default=0, editable=False)),
                ('synced_at', models.DateTimeField(editable=False, null=True)),
                ('completeness_percent', models.FloatField(editable=False, null=True)),
                ('is_complete', models.BooleanField(default=True, editable=False)),
                ('size_bytes', models.BigIntegerField(default=0, editable=False)),
                ('duration_seconds', models.FloatField(editable=False, null=True)),
                ('frames', models.BigIntegerField(default=0, editable=False)),
                ('technical', models.JSONField(default=dict, editable=False)),
                ('video_format', models.CharField(blank=True, editable=False, max_length=40)),
                ('audio_format', models.CharField(blank=True, editable=False, max_length=60)),
                ('timecode', models.CharField(blank=True, editable=False, max_length=20)),
                ('sha256', models.CharField(blank=True, editable=False, max_length=64, verbose_name='SHA-256')),
                ('loudness_lufs', models.FloatField(editable=False, null=True)),
                ('loudness_range_lu', models.FloatField(editable=False, null=True)),
                ('true_peak_dbtp', models.FloatField(editable=False, null=True)),
                ('findings', models.JSONField(default=list, editable=False)),
                ('error', models.TextField(blank=True, editable=False)),
                ('held_at', models.DateTimeField(editable=False, null=True)),
                ('held_by', models.CharField(blank=True, editable=False, max_length=150)),
                ('hold_reason', models.CharField(blank=True, editable=False, max_length=200)),
                ('trashed_at', models.DateTimeField(editable=False, null=True)),
                ('trashed_by', models.CharField(blank=True, editable=False, max_length=150)),
                ('trash_reason', models.CharField(blank=True, editable=False, max_length=200)),
                ('purge_at', models.DateTimeField(editable=False, null=True)),
                ('files_gone_at', models.DateTimeField(editable=False, null=True)),
                ('withdrawn_at', models.DateTimeField(editable=False, null=True)),
                ('withdrawn_by', models.CharField(blank=True, editable=False, max_length=150)),
                ('withdraw_reason', models.CharField(blank=True, editable=False, max_length=200)),
                ('booking', models.OneToOneField(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='asset', to='scheduling.booking')),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='assets', to='station.project')),
                ('replacement', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='assets.asset')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'permissions': [('operate_asset', 'Can process, deliver, hold, withdraw and trash assets')],
            },
        ),
        migrations.CreateModel(
            name='AssetEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('old', models.CharField(max_length=16)),
                ('new', models.CharField(max_length=16)),
                ('by', models.CharField(max_length=150)),
                ('note', models.TextField(blank=True)),
                ('detail', models.JSONField(blank=True, default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('subject', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='assets.asset')),
            ],
            options={
                'ordering': ['at', 'id'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='AssetPart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('path', models.CharField(max_length=700)),
                ('first_frame_at', models.DateTimeField(null=True)),
                ('last_frame_at', models.DateTimeField(null=True)),
                ('frames', models.BigIntegerField(default=0)),
                ('seconds', models.FloatField(default=0)),
                ('size_bytes', models.BigIntegerField(default=0)),
                ('end_reason', models.CharField(blank=True, max_length=40)),
                ('is_readable', models.BooleanField(default=True)),
                ('sha256', models.CharField(blank=True, max_length=64)),
                ('asset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='parts', to='assets.asset')),
                ('node', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='nodes.node')),
            ],
            options={
                'ordering': ['asset', 'number'],
            },
        ),
        migrations.CreateModel(
            name='AssetStep',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('probe', 'technical data'), ('checksum', 'checksum'), ('pictures', 'poster and filmstrip'), ('proxy', 'proxy'), ('loudness', 'loudness'), ('report', 'black, silence, freeze')], max_length=9)),
                ('run_ref', models.BigIntegerField(null=True)),
                ('asked_at', models.DateTimeField()),
                ('done_at', models.DateTimeField(null=True)),
                ('failed_at', models.DateTimeField(null=True)),
                ('error', models.TextField(blank=True)),
                ('result', models.JSONField(default=dict)),
                ('times_done', models.PositiveIntegerField(default=0)),
                ('asset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='assets.asset')),
            ],
            options={
                'ordering': ['asset', 'id'],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(editable=False, max_length=16)),
                ('state_since_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('deadline_at', models.DateTimeField(editable=False, null=True)),
                ('key', models.UUIDField(default=uuid.uuid4, editable=False)),
                ('external_id', models.CharField(blank=True, editable=False, max_length=200, verbose_name='external ID')),
                ('attempts', models.PositiveIntegerField(default=0, editable=False)),
                ('rounds', models.PositiveIntegerField(default=0, editable=False)),
                ('next_attempt_at', models.DateTimeField(editable=False, null=True)),
                ('error', models.TextField(blank=True, editable=False)),
                ('run_ref', models.BigIntegerField(editable=False, null=True)),
                ('created_at', models.DateTimeField(editable=False)),
                ('delivered_at', models.DateTimeField(editable=False, null=True)),
                ('requested_by', models.CharField(blank=True, editable=False, max_length=150)),
                ('asset', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='deliveries', to='assets.asset')),
            ],
            options={
                'verbose_name_plural': 'deliveries',
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='DeliveryAttempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('began_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('is_good', models.BooleanField(null=True)),
                ('text', models.TextField(blank=True)),
                ('detail', models.JSONField(default=dict)),
                ('delivery', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='log', to='assets.delivery')),
            ],
            options={
                'ordering': ['delivery', 'number'],
            },
        ),
        migrations.CreateModel(
            name='DeliveryEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('old', models.CharField(max_length=16)),
                ('new', models.CharField(max_length=16)),
                ('by', models.CharField(max_length=150)),
                ('note', models.TextField(blank=True)),
                ('detail', models.JSONField(blank=True, default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('subject', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='assets.delivery')),
            ],
            options={
                'ordering': ['at', 'id'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Destination',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80)),
                ('connector', models.CharField(choices=[('http', 'HTTP with JSON'), ('folder', 'delivery folder')], default='http', max_length=10)),
                ('config', models.JSONField(blank=True, default=dict, verbose_name='configuration')),
                ('secrets_sealed', models.TextField(blank=True, editable=False)),
                ('is_automatic', models.BooleanField(default=True, help_text='Deliver every asset in this project automatically when it is ready.', verbose_name='automatic')),
                ('takes_partial', models.BooleanField(default=True, help_text='Also deliver incomplete recordings.')),
                ('is_active', models.BooleanField(default=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='destinations', to='station.project')),
            ],
            options={
                'ordering': ['project', 'name'],
            },
        ),
        migrations.AddField(
            model_name='delivery',
            name='destination',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='deliveries', to='assets.destination'),
        ),
        migrations.CreateModel(
            name='Import',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(editable=False, max_length=16)),
                ('state_since_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('deadline_at', models.DateTimeField(editable=False, null=True)),
                ('way', models.CharField(choices=[('upload', 'uploaded'), ('folder', 'from a folder'), ('watch', 'from a watch folder')], max_length=6)),
                ('name', models.CharField(max_length=255)),
                ('source', models.CharField(max_length=700)),
                ('fingerprint', models.CharField(max_length=60)),
                ('size_bytes', models.BigIntegerField(default=0)),
                ('requested_by', models.CharField(blank=True, max_length=150)),
                ('created_at', models.DateTimeField()),
                ('error', models.TextField(blank=True)),
                ('run_ref', models.BigIntegerField(null=True)),
                ('asset', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='imports', to='assets.asset')),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='station.project')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='ImportEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('old', models.CharField(max_length=16)),
                ('new', models.CharField(max_length=16)),
                ('by', models.CharField(max_length=150)),
                ('note', models.TextField(blank=True)),
                ('detail', models.JSONField(blank=True, default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('subject', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='assets.import')),
            ],
            options={
                'ordering': ['at', 'id'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='RetentionRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('max_age_days', models.PositiveIntegerField(blank=True, help_text='Older assets are deleted.', null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='days kept')),
                ('max_count', models.PositiveIntegerField(blank=True, help_text='If there are more, the oldest are deleted.', null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='number kept')),
                ('min_free_percent', models.PositiveIntegerField(blank=True, help_text='If less is free, the oldest assets are deleted and the trash is emptied early.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(90)], verbose_name='free disk kept (%)')),
                ('trash_days', models.PositiveIntegerField(default=7, help_text='An asset can be restored during this time.', validators=[django.core.validators.MaxValueValidator(365)], verbose_name='days in the trash')),
                ('only_delivered', models.BooleanField(default=False, help_text='Delete only assets that were delivered to every automatic destination.')),
                ('is_active', models.BooleanField(default=True)),
                ('project', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='retention', to='station.project')),
            ],
            options={
                'ordering': ['project'],
            },
        ),
        migrations.CreateModel(
            name='WatchFolder',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80, unique=True)),
                ('path', models.CharField(help_text='Absolute path inside one of the folders in IMPORT_ROOTS.', max_length=400, unique=True)),
                ('settle_seconds', models.PositiveIntegerField(default=10, help_text='A file is imported when it has not changed for this many seconds.', validators=[django.core.validators.MinValueValidator(2), django.core.validators.MaxValueValidator(3600)])),
                ('afterwards', models.CharField(choices=[('move', "move the file to the subfolder 'imported'"), ('leave', 'leave the file where it is')], default='move', max_length=5)),
                ('is_active', models.BooleanField(default=True)),
                ('next_look_at', models.DateTimeField(editable=False, null=True)),
                ('looked_at', models.DateTimeField(editable=False, null=True)),
                ('seen', models.JSONField(default=dict, editable=False)),
                ('error', models.CharField(blank=True, editable=False, max_length=300)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='watch_folders', to='station.project')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.AddField(
            model_name='import',
            name='watch_folder',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='imports', to='assets.watchfolder'),
        ),
        migrations.AddIndex(
            model_name='asset',
            index=models.Index(condition=models.Q(('state__in', ['live', 'processing'])), fields=['state', 'id'], name='asset_unfinished'),
        ),
        migrations.AddIndex(
            model_name='asset',
            index=models.Index(condition=models.Q(('purge_at__isnull', False), models.Q(('state', 'deleted'), _negated=True)), fields=['purge_at'], name='asset_to_purge'),
        ),
        migrations.AddIndex(
            model_name='asset',
            index=models.Index(condition=models.Q(('files_gone_at', None), ('state', 'deleted')), fields=['id'], name='asset_to_wipe'),
        ),
        migrations.AddIndex(
            model_name='asset',
            index=models.Index(condition=models.Q(('sha256', ''), _negated=True), fields=['sha256'], name='asset_by_checksum'),
        ),
        migrations.AddIndex(
            model_name='asset',
            index=models.Index(fields=['project', '-created_at'], name='asset_by_project'),
        ),
        migrations.AddIndex(
            model_name='asset',
            index=models.Index(condition=models.Q(('state__in', ['ready', 'partial', 'error']), ('trashed_at', None)), fields=['project', 'created_at', 'id'], name='asset_retained'),
        ),
        migrations.AddConstraint(
            model_name='assetpart',
            constraint=models.UniqueConstraint(fields=('asset', 'number'), name='part_once_per_number'),
        ),
        migrations.AddIndex(
            model_name='assetstep',
            index=models.Index(condition=models.Q(('done_at', None), ('failed_at', None)), fields=['asset'], name='step_open'),
        ),
        migrations.AddConstraint(
            model_name='assetstep',
            constraint=models.UniqueConstraint(fields=('asset', 'kind'), name='step_once_per_kind'),
        ),
        migrations.AddConstraint(
            model_name='deliveryattempt',
            constraint=models.UniqueConstraint(fields=('delivery', 'number'), name='attempt_once_per_number'),
        ),
        migrations.AddConstraint(
            model_name='destination',
            constraint=models.UniqueConstraint(fields=('project', 'name'), name='destination_once_per_name'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(models.OrderBy(models.F('next_attempt_at'), nulls_first=True), condition=models.Q(('state__in', ['pending', 'failed'])), name='mam_delivery_due'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('state', 'sending')), fields=['id'], name='mam_delivery_sending'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.UniqueConstraint(fields=('asset', 'destination'), name='delivery_once_per_destination'),
        ),
        migrations.AddIndex(
            model_name='import',
            index=models.Index(condition=models.Q(('state__in', ['waiting', 'copying'])), fields=['id'], name='import_unfinished'),
        ),
        migrations.AddConstraint(
            model_name='import',
            constraint=models.UniqueConstraint(fields=('source', 'fingerprint'), name='import_once_per_file'),
        ),
        migrations.AddIndex(
            model_name='asset',
            index=django.contrib.postgres.indexes.GinIndex(station.database.words.Words('title'), name='asset_words'),
        ),
        migrations.AddIndex(
            model_name='assetpart',
            index=django.contrib.postgres.indexes.GinIndex(station.database.words.Words('path'), name='part_words'),
        ),
        migrations.AddIndex(
            model_name='import',
            index=django.contrib.postgres.indexes.GinIndex(station.database.words.Words('name', 'source'), name='import_words'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=django.contrib.postgres.indexes.GinIndex(station.database.words.Words('external_id'), name='mam_delivery_words'),
        ),
    ]
