"""Admin of users and groups, in the style of the other pages; for administrators only."""

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from station.admin.base import Audited, ForgivingList
from station.rights import Role

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class PersonAdmin(ForgivingList, Audited, UserAdmin, ModelAdmin):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ["username", "first_name", "last_name", "email", "is_active", "is_staff", "last_login"]
    fieldsets = [
        (None, {"fields": ["username", "password"]}),
        ("Person", {"fields": ["first_name", "last_name", "email"]}),
        (
            "Rights",
            {
                "fields": ["is_active", "is_staff", "is_superuser", "groups"],
                "description": "Staff status lets a person log in here. Rights are set per project; "
                f"members of the group “{Role.ADMINISTRATOR}” may do everything everywhere.",
            },
        ),
    ]


@admin.register(Group)
class RoleAdmin(ForgivingList, Audited, GroupAdmin, ModelAdmin):
    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        return super().get_queryset(request).prefetch_related("permissions")
