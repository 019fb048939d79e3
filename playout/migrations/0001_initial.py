"""The tables of playout, as of release 0.1.0."""

import station.database.words
import django.contrib.postgres.indexes
import django.core.serializers.json
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('assets', '0001_initial'),
        ('nodes', '0001_initial'),
        ('scheduling', '0001_initial'),
        ('station', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Channel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state_since_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('deadline_at', models.DateTimeField(editable=False, null=True)),
                ('state', models.CharField(choices=[('off_air', 'off air'), ('starting', 'Starting'), ('on_air', 'on air'), ('failing_over', 'failing over'), ('stopping', 'Stopping'), ('error', 'Error')], default='off_air', editable=False, max_length=16)),
                ('name', models.CharField(max_length=80, unique=True)),
                ('is_wanted', models.BooleanField(default=False, editable=False, verbose_name='wanted on air')),
                ('picture', models.CharField(choices=[('640x360p25', '640x360, 25 frames a second'), ('1280x720p25', '1280x720, 25 frames a second'), ('1280x720p50', '1280x720, 50 frames a second'), ('1920x1080p25', '1920x1080, 25 frames a second'), ('1920x1080p29.97', '1920x1080, 29.97 frames a second'), ('1920x1080p50', '1920x1080, 50 frames a second')], default='1280x720p25', max_length=20, verbose_name='video format')),
                ('fit', models.CharField(choices=[('pad', 'bars beside or above it'), ('crop', 'cut to fill the picture'), ('stretch', 'stretched')], default='pad', max_length=8, verbose_name='another shape')),
                ('video_bitrate', models.CharField(default='4M', max_length=6, validators=[django.core.validators.RegexValidator('^[1-9][0-9]{0,4}[kM]$', 'Like 800k or 8M.')])),
                ('loudness_lufs', models.FloatField(blank=True, default=-23.0, help_text='LUFS. Measured clips are played louder or softer to meet it; live sources are not. Empty: off.', null=True, validators=[django.core.validators.MinValueValidator(-40.0), django.core.validators.MaxValueValidator(-10.0)], verbose_name='target loudness')),
                ('slate', models.CharField(choices=[('bars', 'colour bars'), ('black', 'Black')], default='bars', max_length=8)),
                ('pause', models.CharField(choices=[('hold', 'hold the picture, without sound'), ('black', 'Black')], default='hold', max_length=8, verbose_name='while paused')),
                ('isolation_seconds', models.PositiveIntegerField(blank=True, help_text='Seconds without contact to Airlock until the channel goes off air. Empty: it keeps playing.', null=True, validators=[django.core.validators.MinValueValidator(10), django.core.validators.MaxValueValidator(86400)], verbose_name='stop without Airlock after')),
                ('node_labels', models.CharField(blank=True, help_text='Labels the node must have, separated by spaces.', max_length=200, validators=[django.core.validators.RegexValidator('^[a-z0-9][a-z0-9_.=-]*( [a-z0-9][a-z0-9_.=-]*)*$', 'Use labels of a-z, 0-9, - . = _, separated by spaces.')])),
                ('restart_count', models.PositiveIntegerField(default=0, editable=False)),
                ('next_attempt_at', models.DateTimeField(editable=False, null=True)),
                ('attempts', models.PositiveIntegerField(default=0, editable=False)),
                ('error', models.TextField(blank=True, editable=False)),
                ('on_air_since_at', models.DateTimeField(editable=False, null=True)),
                ('ports_due_at', models.DateTimeField(editable=False, null=True)),
                ('place', models.JSONField(default=dict, editable=False)),
                ('asrun_generation', models.PositiveIntegerField(default=0, editable=False)),
                ('asrun_revision', models.BigIntegerField(default=0, editable=False)),
                ('filler', models.ForeignKey(blank=True, help_text='Plays in a loop while the list has nothing to play. Empty: the slate.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='assets.asset')),
                ('node', models.ForeignKey(blank=True, help_text='Empty: any suitable node, and another one if it fails.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='nodes.node')),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='channels', to='station.project')),
            ],
            options={
                'ordering': ['name'],
                'permissions': [('operate_channel', 'Can start, stop and control channels')],
            },
        ),
        migrations.CreateModel(
            name='ChannelEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('old', models.CharField(max_length=16)),
                ('new', models.CharField(max_length=16)),
                ('by', models.CharField(max_length=150)),
                ('note', models.TextField(blank=True)),
                ('detail', models.JSONField(blank=True, default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('subject', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='playout.channel')),
            ],
            options={
                'ordering': ['at', 'id'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Playlist',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=120)),
                ('on', models.DateField(blank=True, help_text='The broadcast day on which it is played. Empty: any day.', null=True, verbose_name='for the day')),
                ('is_loop', models.BooleanField(default=True, help_text='Start again at the end. A list for a day is played once.', verbose_name='loop')),
                ('channel', models.ForeignKey(blank=True, help_text='Only for a list for a day: the channel that plays it.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='playlists', to='playout.channel')),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='playlists', to='station.project')),
            ],
            options={
                'ordering': ['-on', 'name'],
            },
        ),
        migrations.AddField(
            model_name='channel',
            name='playlist',
            field=models.ForeignKey(blank=True, help_text='Played on days that have no list of their own.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='played_by', to='playout.playlist'),
        ),
        migrations.CreateModel(
            name='PlaylistItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField(default=0)),
                ('kind', models.CharField(choices=[('asset', 'Asset'), ('live', 'live source'), ('slate', 'Slate')], default='asset', max_length=8)),
                ('title', models.CharField(blank=True, help_text='Empty: the name of the asset or source.', max_length=200)),
                ('in_seconds', models.FloatField(default=0, validators=[django.core.validators.MinValueValidator(0)], verbose_name='in')),
                ('out_seconds', models.FloatField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='out')),
                ('length_seconds', models.FloatField(blank=True, help_text='Only for a live item or a slate.', null=True, validators=[django.core.validators.MinValueValidator(0.2)], verbose_name='length')),
                ('start_time', models.TimeField(blank=True, help_text='House time. Empty: it follows the item before it.', null=True, verbose_name='fixed start')),
                ('start', models.CharField(choices=[('cut', 'at its time, cutting the item on air'), ('wait', 'when the item on air has ended')], default='cut', max_length=5, verbose_name='how')),
                ('max_late_seconds', models.PositiveIntegerField(blank=True, help_text='An item that is more seconds late is skipped.', null=True, verbose_name='max lateness')),
                ('inserted_at', models.DateTimeField(editable=False, null=True)),
                ('asset', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='playlist_items', to='assets.asset')),
                ('playlist', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='items', to='playout.playlist')),
                ('source', models.ForeignKey(blank=True, help_text='Only for a live item: the recorder whose source is shown.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='scheduling.recorder')),
            ],
            options={
                'ordering': ['playlist', 'position', 'id'],
            },
        ),
        migrations.CreateModel(
            name='AsRunEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('generation', models.PositiveIntegerField()),
                ('seq', models.PositiveIntegerField()),
                ('kind', models.CharField(max_length=8)),
                ('title', models.CharField(max_length=200)),
                ('planned_at', models.DateTimeField(null=True)),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('from_seconds', models.FloatField(default=0)),
                ('frames', models.BigIntegerField(default=0)),
                ('repeats', models.BigIntegerField(default=0)),
                ('reason', models.CharField(blank=True, max_length=20)),
                ('note', models.TextField(blank=True)),
                ('asset', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='assets.asset')),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='asrun', to='playout.channel')),
                ('item', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='playout.playlistitem')),
            ],
            options={
                'verbose_name': 'as-run entry',
                'verbose_name_plural': 'as-run',
                'ordering': ['-started_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='Recovery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('restart', 'restarted'), ('move', 'moved to another machine'), ('by_hand', 'moved by hand')], max_length=8)),
                ('reason', models.TextField()),
                ('by', models.CharField(max_length=150)),
                ('lost_at', models.DateTimeField()),
                ('noticed_at', models.DateTimeField()),
                ('back_at', models.DateTimeField(null=True)),
                ('off_air_seconds', models.FloatField(null=True)),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='recoveries', to='playout.channel')),
                ('from_node', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='nodes.node')),
                ('to_node', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='nodes.node')),
            ],
            options={
                'verbose_name_plural': 'recoveries',
                'ordering': ['-noticed_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='ChannelOutput',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('type', models.CharField(choices=[('srt', 'SRT'), ('rtmp', 'RTMP'), ('udp', 'UDP (MPEG-TS)'), ('rtp', 'RTP (MPEG-TS)'), ('hls', 'HLS in the media folder'), ('file', 'file in the media folder'), ('decklink', 'DeckLink')], max_length=10)),
                ('address', models.CharField(help_text='Secrets in the address are sealed when you save.', max_length=500)),
                ('secrets_sealed', models.TextField(blank=True, editable=False)),
                ('constant_bitrate', models.CharField(blank=True, help_text='Of the transport stream (SRT, UDP, RTP), filled up with null packets, like 5M. Empty: variable.', max_length=6, validators=[django.core.validators.RegexValidator('^[1-9][0-9]{0,4}[kM]$', 'Like 800k or 8M.')])),
                ('is_active', models.BooleanField(default=True)),
                ('monitored_at', models.CharField(blank=True, help_text="Where the output can be received, to check what really goes out: for multicast the same address, for RTMP the server's play address. Empty: it is not checked. One output of a channel can be monitored.", max_length=500)),
                ('monitored_secrets_sealed', models.TextField(blank=True, editable=False)),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='outputs', to='playout.channel')),
            ],
            options={
                'ordering': ['channel', 'id'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('type__in', ('hls', 'file', 'decklink'))), fields=('channel', 'type', 'address'), name='output_once', violation_error_message='The channel already has this output.')],
            },
        ),
        migrations.AddConstraint(
            model_name='playlist',
            constraint=models.UniqueConstraint(condition=models.Q(('on__isnull', False)), fields=('channel', 'on'), name='playlist_per_day', violation_error_message='The channel already has a list for that day.'),
        ),
        migrations.AddConstraint(
            model_name='playlist',
            constraint=models.CheckConstraint(condition=models.Q(('on', None), ('channel__isnull', False), _connector='OR'), name='playlist_day_belongs_to_channel'),
        ),
        migrations.AddIndex(
            model_name='channel',
            index=models.Index(condition=models.Q(('is_wanted', True), models.Q(('state', 'off_air'), _negated=True), _connector='OR'), fields=['id'], name='channel_to_look_at'),
        ),
        migrations.AddIndex(
            model_name='channel',
            index=models.Index(condition=models.Q(('ports_due_at__isnull', False)), fields=['ports_due_at'], name='channel_ports_due'),
        ),
        migrations.AddConstraint(
            model_name='playlistitem',
            constraint=models.CheckConstraint(condition=models.Q(('out_seconds', None), ('out_seconds__gt', models.F('in_seconds')), _connector='OR'), name='item_out_after_in'),
        ),
        migrations.AddIndex(
            model_name='asrunentry',
            index=models.Index(fields=['channel', 'started_at'], name='asrun_of_day'),
        ),
        migrations.AddConstraint(
            model_name='asrunentry',
            constraint=models.UniqueConstraint(fields=('channel', 'generation', 'seq'), name='asrun_once'),
        ),
        migrations.AddConstraint(
            model_name='asrunentry',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('channel',), name='asrun_one_open'),
        ),
        migrations.AddIndex(
            model_name='recovery',
            index=models.Index(fields=['channel', '-noticed_at'], name='recovery_of_channel'),
        ),
        migrations.AddIndex(
            model_name='asrunentry',
            index=django.contrib.postgres.indexes.GinIndex(station.database.words.Words('title', 'note'), name='asrun_words'),
        ),
    ]
