"""All settings. The environment is read only here; `.env.example` lists and explains every variable."""

import sys
from datetime import timedelta
from pathlib import Path

import environ

from config.database_settings import add_keepalives, read_limits, read_url
from config.embedded_postgres import EmbeddedServer
from config.keys import folder_key, stored_key

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()
environ.Env.read_env(BASE_DIR / ".env")

# --- Folders ----------------------------------------------------------------------------------------------------

DATA_DIR = Path(env.str("DATA_DIR", default="") or BASE_DIR / ".data").expanduser().resolve()
RECORDINGS_DIR = Path(env.str("RECORDINGS_DIR", default="") or DATA_DIR / "media").expanduser().resolve()

# --- Security ---------------------------------------------------------------------------------------------------

DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = env.str("SECRET_KEY", default="") or stored_key(DATA_DIR, "django")
# The first key encrypts; all of them decrypt. To rotate, put a new one in front and run `manage.py reseal`.
SEALING_KEYS = env.list("SEALING_KEYS", default=[]) or [stored_key(DATA_DIR, "sealing")]
# Shows that this machine acts for this installation, and not for a copy of its database (station/admission.py).
INSTALLATION_KEY = env.str("INSTALLATION_KEY", default="") or folder_key(DATA_DIR)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

# Plain HTTP must be chosen explicitly. `manage.py up` chooses it when it listens on this machine only.
HTTPS = env.bool("HTTPS", default=True)
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_HSTS_SECONDS = env.int("HSTS_SECONDS", default=31_536_000) if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.bool("BEHIND_PROXY", default=False) else None
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = env.int("SESSION_HOURS", default=12) * 3600
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
DATA_UPLOAD_MAX_NUMBER_FIELDS = 40_000  # a playlist of 2,000 items is one form

CONTENT_SECURITY_POLICY = {
    "default-src": "'self'",
    # unfold's Alpine evaluates expressions in attributes, so 'unsafe-eval' is needed; scripts come from this site only.
    "script-src": "'self' 'unsafe-eval'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data:",
    "media-src": "'self' blob:",
    "object-src": "'none'",
    "base-uri": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
AUTHENTICATION_BACKENDS = ["station.rights.ProjectBackend"]
LOGIN_URL = "admin:login"

# --- Apps -------------------------------------------------------------------------------------------------------

# Schedulers and job workers show no pages. They leave out the apps for pages, which need 30 MB in each process.
HAS_PAGES = sys.argv[1:2] not in (["runworker"], ["runscheduler"])
PAGE_APPS = ["ninja", "unfold", "unfold.contrib.filters", "unfold.contrib.forms", "whitenoise.runserver_nostatic"]
INSTALLED_APPS = [
    "config",
    "playout",
    "assets",
    "scheduling",
    "jobs",
    "nodes",
    "station",
    *(PAGE_APPS if HAS_PAGES else []),
    # The second does not import the pages. config/urls.py does, if somebody needs the address of one.
    "django.contrib.admin" if HAS_PAGES else "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "config.middleware.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "config.middleware.HouseTimeMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# --- Database ---------------------------------------------------------------------------------------------------

DATABASE_URL = env.str("DATABASE_URL", default="")
EMBEDDED_POSTGRES_DIR = None if DATABASE_URL else DATA_DIR / "postgres"
DATABASES = {
    "default": add_keepalives(
        read_url(DATABASE_URL) if DATABASE_URL else EmbeddedServer(DATA_DIR / "postgres").django_settings()
    )
}
DATABASES["default"]["CONN_MAX_AGE"] = 60
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
# Each long-running process takes its own limits at its start: station/database/roles.py.
DATABASE_LIMITS = read_limits(env)
DATABASE_OPTIONS = str(DATABASES["default"]["OPTIONS"].get("options", ""))

# --- Time -------------------------------------------------------------------------------------------------------

USE_TZ = True
TIME_ZONE = "UTC"
HOUSE_TIME_ZONE = env.str("HOUSE_TIME_ZONE", default="Europe/Berlin")
LANGUAGE_CODE = "en-gb"
USE_I18N = False
FORMAT_MODULE_PATH = "config.formats"

# --- Static files -----------------------------------------------------------------------------------------------

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

# --- The scheduler ----------------------------------------------------------------------------------------------

SCHEDULER_STEPS = [
    "scheduling.leader.dispatch.step",
    "nodes.workloads.reconcile.step",
    "scheduling.recording.loop_step.step",
    "playout.channels.loop_step.step",
    "playout.channels.port_watch.step",
    "scheduling.rules.planning.step",
    "scheduling.recording.preflight.step",
    "jobs.runs.planning.step",
    "jobs.runs.sweeping.step",
    "assets.library.live.step",
    "assets.delivery.lifecycle.step",
    "assets.intake.watch_folders.step",
    "station.alerts.sending.step",
]
SCHEDULER_TICK_SECONDS = env.float("SCHEDULER_TICK_SECONDS", default=15.0)
# Bookings are claimed this long before they start and then held in memory.
ARM_AHEAD_SECONDS = env.float("ARM_AHEAD_SECONDS", default=10.0)
# Media workers are started this long before their window opens and wait, so that the first frame is on time.
LAUNCH_AHEAD_SECONDS = env.float("LAUNCH_AHEAD_SECONDS", default=5.0)
PLAN_AHEAD = timedelta(days=env.float("PLAN_AHEAD_DAYS", default=14.0))
DISPATCH_THREADS = env.int("DISPATCH_THREADS", default=8)
# The leader sends a heartbeat at least this often. If it is silent for LEADER_SILENCE_SECONDS, PostgreSQL ends its
# session and a standby becomes leader. (Not 10 s: PostgreSQL's timer for idle statistics would then wake the session a
# second time, just before each heartbeat.)
LEADER_HEARTBEAT_SECONDS = env.float("LEADER_HEARTBEAT_SECONDS", default=12.0)
LEADER_SILENCE_SECONDS = env.float("LEADER_SILENCE_SECONDS", default=14.0)
# How long a standby waits for the lock in one try. VACUUM is held up for that long; more tries cost more work.
LEADER_LOCK_TRY_SECONDS = env.float("LEADER_LOCK_TRY_SECONDS", default=120.0)

# Modules that declare jobs; every process imports them at start.
JOB_MODULES = [
    "jobs.runs.retention",
    "assets.declared_jobs",
    "config.retention",
    "config.demo.clips",
    *env.list("JOB_MODULES", default=[]),
]
# Planned runs are created this long ahead, so that job workers start them on time.
JOB_PLAN_AHEAD_SECONDS = env.float("JOB_PLAN_AHEAD_SECONDS", default=10.0)
# At most this many runs at once over all job workers; 0: no limit but the job workers' slots (J-18).
JOB_FLEET_LIMIT = env.int("JOB_FLEET_LIMIT", default=0)
# A job is retired when no scheduler and no job worker that gave a sign of life within this time declares it (J-27).
JOB_RETIRE_AFTER = timedelta(minutes=env.float("JOB_RETIRE_AFTER_MINUTES", default=15.0))
# An idle job worker checks for runs at least this often, in case a notification is lost.
JOB_WORKER_TICK_SECONDS = env.float("JOB_WORKER_TICK_SECONDS", default=15.0)
# How long a job worker that is asked to stop waits for its runs; then it asks the runs to stop.
JOB_WORKER_STOP_SECONDS = env.float("JOB_WORKER_STOP_SECONDS", default=10.0)

# Called when something new is known about a workload, by the first word of its owner.
WORKLOAD_OWNERS = {"booking": "scheduling.recording.loop_step.look", "channel": "playout.channels.loop_step.look"}
# Owners that never start again. The last workload of the others is kept, because the next generation counts from it.
PASSING_OWNERS = ["booking"]
# Called whenever a booking was advanced.
BOOKING_FOLLOWERS = ["assets.library.live.follow"]
# Classes that know where an asset is used and can replace it there (see assets/library/usage.py).
ASSET_USERS = ["playout.lists.asset_use.PlaylistUse"]

# --- Nodes and workloads ----------------------------------------------------------------------------------------

WORKER_IMAGE = env.str("WORKER_IMAGE", default="airlock-worker:latest")
WORKER_USER = env.str("WORKER_USER", default="10001:10001")
WORKER_MEMORY_MB = env.int("WORKER_MEMORY_MB", default=1024)
PLAYOUT_MEMORY_MB = env.int("PLAYOUT_MEMORY_MB", default=2048)
WORKER_CPUS = env.float("WORKER_CPUS", default=2.0)
WORKER_PIDS = env.int("WORKER_PIDS", default=1024)
# The first control port of the first node. A second Airlock on the same machine needs another one.
CONTROL_PORT_FROM = env.int("CONTROL_PORT_FROM", default=9600)
NODE_CALL_SECONDS = env.float("NODE_CALL_SECONDS", default=8.0)
NODE_KEYS_DIR = Path(env.str("NODE_KEYS_DIR", default="") or DATA_DIR / "node-keys").expanduser().resolve()
NODE_CHECK_SECONDS = env.float("NODE_CHECK_SECONDS", default=5.0)
NODE_DISK_CHECK_SECONDS = env.float("NODE_DISK_CHECK_SECONDS", default=60.0)
# An alert if the clock of a node differs by more from the database's clock.
NODE_CLOCK_ALERT_SECONDS = env.float("NODE_CLOCK_ALERT_SECONDS", default=0.5)
STATUS_POLL_SECONDS = env.float("STATUS_POLL_SECONDS", default=2.0)
# How long a media worker may take to answer.
WORKER_ANSWER_SECONDS = env.float("WORKER_ANSWER_SECONDS", default=2.0)
# Channels are polled more often. One that is silent for three polls and PLAYOUT_SILENCE_SECONDS is lost.
PLAYOUT_POLL_SECONDS = env.float("PLAYOUT_POLL_SECONDS", default=1.0)
PLAYOUT_SILENCE_SECONDS = env.float("PLAYOUT_SILENCE_SECONDS", default=3.0)
# A channel whose monitored output is lost, black, frozen or silent for this long raises an alert.
RETURN_LOST_SECONDS = env.float("RETURN_LOST_SECONDS", default=5.0)
RETURN_BLACK_SECONDS = env.float("RETURN_BLACK_SECONDS", default=5.0)
RETURN_FREEZE_SECONDS = env.float("RETURN_FREEZE_SECONDS", default=15.0)
RETURN_SILENT_SECONDS = env.float("RETURN_SILENT_SECONDS", default=15.0)
# The same for half a minute that differs by more from the channel's target loudness.
RETURN_LOUDNESS_LU = env.float("RETURN_LOUDNESS_LU", default=8.0)
# A moving preview of each recording. It costs about as much processor time as the recording itself.
WORKER_PREVIEW = env.bool("WORKER_PREVIEW", default=True)
FFMPEG = env.str("FFMPEG", default="")
# A name from nodes/failpoints.py: the process kills itself there. Only for tests of crashes.
FAILPOINT = env.str("FAILPOINT", default="")

# --- Recording --------------------------------------------------------------------------------------------------

RECORD_NOW_MAX = timedelta(hours=env.float("RECORD_NOW_MAX_HOURS", default=4.0))
MIN_FREE_DISK_MB = env.int("MIN_FREE_DISK_MB", default=512)
# A recording with less than this missing is complete.
TOLERATED_GAP_SECONDS = env.float("TOLERATED_GAP_SECONDS", default=5.0)
# How long a Start or Stop in the admin waits for the outcome before it answers "is still starting".
MANUAL_WAIT_SECONDS = env.float("MANUAL_WAIT_SECONDS", default=8.0)

# --- Playout ----------------------------------------------------------------------------------------------------

# The hour at which a broadcast day begins, in house time.
BROADCAST_DAY_HOUR = env.int("BROADCAST_DAY_HOUR", default=6)
# A channel that was rescued this often within ten minutes waits for a person, or until the ten minutes pass (P-05).
MAX_RECOVERIES = env.int("MAX_RECOVERIES", default=3)

# --- The library ------------------------------------------------------------------------------------------------

# A live asset without progress for this long is an error.
LIVE_ASSET_TIMEOUT = timedelta(minutes=env.float("LIVE_ASSET_TIMEOUT_MINUTES", default=120.0))
# The library writes nothing (imports, proxies) when less than this would stay free for recordings.
LIBRARY_FREE_MB = env.int("LIBRARY_FREE_MB", default=4 * MIN_FREE_DISK_MB)
# How much memory one ffmpeg may use while it analyses a file.
PROCESSING_MEMORY_MB = env.int("PROCESSING_MEMORY_MB", default=4096)
# The report leaves out black, silence and freezes that are shorter than this.
REPORT_BLACK_SECONDS = env.float("REPORT_BLACK_SECONDS", default=0.5)
REPORT_SILENCE_SECONDS = env.float("REPORT_SILENCE_SECONDS", default=1.0)
REPORT_FREEZE_SECONDS = env.float("REPORT_FREEZE_SECONDS", default=2.0)
# Folders that may be watched or imported from, and folders that assets may be delivered to.
IMPORT_ROOTS = env.list("IMPORT_ROOTS", default=[]) or [str(DATA_DIR / "incoming")]
DELIVERY_ROOTS = env.list("DELIVERY_ROOTS", default=[]) or [str(DATA_DIR / "outgoing")]
UPLOAD_LIMIT_MB = env.int("UPLOAD_LIMIT_MB", default=4096)
DELIVERY_TIMEOUT_SECONDS = env.float("DELIVERY_TIMEOUT_SECONDS", default=30.0)
# The pause after the first failed attempt of a delivery; each further pause is twice as long, up to an hour.
DELIVERY_BACKOFF_SECONDS = env.float("DELIVERY_BACKOFF_SECONDS", default=15.0)
# Behind nginx: the internal location that serves RECORDINGS_DIR, like /protected/. Empty: Airlock sends the files.
MEDIA_ACCEL_PREFIX = env.str("MEDIA_ACCEL_PREFIX", default="")
MEDIA_LINK_HOURS = env.float("MEDIA_LINK_HOURS", default=12.0)

# --- Alerts -----------------------------------------------------------------------------------------------------

vars().update(env.email_url("EMAIL_URL", default="consolemail://"))
EMAIL_TIMEOUT = env.int("EMAIL_TIMEOUT_SECONDS", default=10)
DEFAULT_FROM_EMAIL = env.str("ALERT_SENDER", default="airlock@localhost")
SERVER_EMAIL = DEFAULT_FROM_EMAIL
# An alert that is raised again within this time after it was resolved is the same one; 0: always a new one.
ALERT_DAMPING = timedelta(minutes=env.float("ALERT_DAMPING_MINUTES", default=15.0))
# At most this many mails per route and hour: half of them one by one, then digests. 0: no limit.
ALERT_MAILS_PER_HOUR = env.int("ALERT_MAILS_PER_HOUR", default=20)
WEBHOOK_TIMEOUT_SECONDS = env.float("WEBHOOK_TIMEOUT_SECONDS", default=10.0)
# Loopback and link-local addresses are refused as webhook targets unless listed here (CIDR).
WEBHOOK_ALLOWED_NETWORKS = env.list("WEBHOOK_ALLOWED_NETWORKS", default=[])

# --- How long rows are kept, in days (0: for ever); config/retention.py deletes the older ones ---------------------

WORKLOADS_KEPT_DAYS = env.float("WORKLOADS_KEPT_DAYS", default=30.0)
EVENTS_KEPT_DAYS = env.float("EVENTS_KEPT_DAYS", default=365.0)
ALERTS_KEPT_DAYS = env.float("ALERTS_KEPT_DAYS", default=365.0)
DELIVERY_LOG_KEPT_DAYS = env.float("DELIVERY_LOG_KEPT_DAYS", default=90.0)
RESERVATIONS_KEPT_DAYS = env.float("RESERVATIONS_KEPT_DAYS", default=30.0)
ASRUN_KEPT_DAYS = env.float("ASRUN_KEPT_DAYS", default=3650.0)
AUDIT_KEPT_DAYS = env.float("AUDIT_KEPT_DAYS", default=3650.0)

# --- Monitoring -------------------------------------------------------------------------------------------------

# Callers with this token may read /metrics (Authorization: Bearer …). Empty: nobody.
METRICS_TOKEN = env.str("METRICS_TOKEN", default="")

# --- Logs -------------------------------------------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"redact": {"()": "station.redaction.RedactingFilter"}},
    "formatters": {"line": {"format": "%(asctime)s UTC %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["redact"]}},
    "root": {"handlers": ["console"], "level": env.str("LOG_LEVEL", default="INFO")},
    # While the database is away its pool writes a line for each try. The scheduler's own line says it once.
    "loggers": {"psycopg.pool": {"level": "ERROR"}},
}

from config.admin_theme import UNFOLD  # noqa: E402, F401
