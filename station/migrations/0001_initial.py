"""The tables of station, as of release 0.1.0."""

import station.database.words
import django.contrib.postgres.indexes
import django.core.serializers.json
import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(editable=False, max_length=16)),
                ('state_since_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('deadline_at', models.DateTimeField(editable=False, null=True)),
                ('key', models.CharField(max_length=120)),
                ('severity', models.PositiveSmallIntegerField(choices=[(10, 'notice'), (20, 'warning'), (30, 'critical')])),
                ('title', models.CharField(max_length=200)),
                ('text', models.TextField(blank=True)),
                ('subject', models.CharField(blank=True, max_length=80)),
                ('raised_at', models.DateTimeField()),
                ('last_seen_at', models.DateTimeField()),
                ('times_seen', models.PositiveIntegerField(default=1)),
                ('times_returned', models.PositiveIntegerField(default=0)),
            ],
            options={
                'ordering': ['-raised_at', '-id'],
                'permissions': [('acknowledge_alert', 'Can acknowledge and resolve alerts')],
            },
        ),
        migrations.CreateModel(
            name='Project',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80, unique=True)),
                ('slug', models.SlugField(help_text='Used in folder names.', max_length=40, unique=True)),
                ('is_archived', models.BooleanField(default=False)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='AlertEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('old', models.CharField(max_length=16)),
                ('new', models.CharField(max_length=16)),
                ('by', models.CharField(max_length=150)),
                ('note', models.TextField(blank=True)),
                ('detail', models.JSONField(blank=True, default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('subject', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='station.alert')),
            ],
            options={
                'ordering': ['at', 'id'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='The program that uses this token, e.g. automation desk.', max_length=80)),
                ('token_hash', models.CharField(editable=False, max_length=64, unique=True)),
                ('created_at', models.DateTimeField(editable=False)),
                ('created_by', models.CharField(editable=False, max_length=150)),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
                ('is_active', models.BooleanField(default=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'API token',
                'ordering': ['user', 'name'],
            },
        ),
        migrations.CreateModel(
            name='AdmittedMachine',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('name', models.CharField(max_length=300)),
                ('admitted_at', models.DateTimeField()),
            ],
            options={
                'ordering': ['admitted_at'],
            },
        ),
        migrations.CreateModel(
            name='Installation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('identity', models.UUIDField(default=uuid.uuid4, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='installation_is_single')],
            },
        ),
        migrations.CreateModel(
            name='AlertRoute',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80, unique=True)),
                ('channel', models.CharField(choices=[('mail', 'e-mail'), ('webhook', 'webhook (JSON, signed)')], max_length=10)),
                ('target', models.CharField(help_text='An e-mail address, or an https:// address.', max_length=500)),
                ('secret_sealed', models.TextField(blank=True, editable=False)),
                ('min_severity', models.PositiveSmallIntegerField(choices=[(10, 'notice'), (20, 'warning'), (30, 'critical')], default=20)),
                ('is_active', models.BooleanField(default=True)),
                ('project', models.ForeignKey(blank=True, help_text='Leave empty for all projects.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='station.project')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.AddField(
            model_name='alert',
            name='project',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='station.project'),
        ),
        migrations.CreateModel(
            name='AlertDelivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('what', models.CharField(max_length=12)),
                ('round', models.PositiveIntegerField(default=0)),
                ('is_digest', models.BooleanField(default=False)),
                ('outcome', models.CharField(choices=[('pending', 'Pending'), ('sent', 'Sent'), ('failed', 'failed, will retry'), ('given_up', 'given up')], default='pending', max_length=10)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('next_attempt_at', models.DateTimeField(null=True)),
                ('last_error', models.TextField(blank=True)),
                ('sent_at', models.DateTimeField(null=True)),
                ('alert', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='station.alert')),
                ('route', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='station.alertroute')),
            ],
            options={
                'verbose_name_plural': 'alert deliveries',
                'ordering': ['-id'],
                'indexes': [models.Index(condition=models.Q(('outcome__in', ['pending', 'failed'])), fields=['next_attempt_at'], name='delivery_due'), models.Index(condition=models.Q(('outcome', 'sent')), fields=['route', 'sent_at'], name='delivery_sent')],
                'constraints': [models.UniqueConstraint(fields=('alert', 'route', 'what', 'round'), name='delivery_once_per_step')],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='auth.group')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='station.project')),
            ],
            options={
                'ordering': ['project', 'user'],
                'constraints': [models.UniqueConstraint(fields=('project', 'user'), name='membership_once_per_project')],
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('who', models.CharField(max_length=150)),
                ('what', models.CharField(max_length=80)),
                ('result', models.CharField(choices=[('done', 'Done'), ('refused', 'Refused'), ('nothing', 'nothing to do'), ('failed', 'ended with an error')], default='done', max_length=8)),
                ('subject', models.CharField(max_length=80)),
                ('subject_name', models.CharField(max_length=200)),
                ('before', models.JSONField(default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('after', models.JSONField(default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('note', models.TextField(blank=True)),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='station.project')),
            ],
            options={
                'verbose_name_plural': 'audit entries',
                'ordering': ['-at', '-id'],
                'indexes': [models.Index(fields=['subject', '-at'], name='audit_of_subject')],
            },
        ),
        migrations.AddIndex(
            model_name='alert',
            index=models.Index(fields=['key', '-raised_at'], name='alert_by_key', opclasses=['varchar_pattern_ops', 'timestamptz_ops']),
        ),
        migrations.AddConstraint(
            model_name='alert',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'resolved'), _negated=True), fields=('key',), name='alert_once_while_unresolved'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=django.contrib.postgres.indexes.GinIndex(station.database.words.Words('who', 'subject_name', 'note'), name='audit_words'),
        ),
        migrations.AddIndex(
            model_name='alert',
            index=django.contrib.postgres.indexes.GinIndex(station.database.words.Words('title', 'text', 'key'), name='alert_words'),
        ),
    ]
