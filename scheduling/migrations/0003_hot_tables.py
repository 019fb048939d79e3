"""Room for updates on the tables the loop writes most."""

from django.db import migrations

HOT = """
ALTER TABLE scheduling_leadership SET (fillfactor = 50, autovacuum_vacuum_threshold = 100);
ALTER TABLE scheduling_booking SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
ALTER TABLE scheduling_schedule SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0002_schedules")]
    operations = [migrations.RunSQL(HOT, migrations.RunSQL.noop)]
