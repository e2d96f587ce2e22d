"""Tasks of Django on Windlass: ``django.tasks`` of Django 6.0, or the package ``django-tasks`` with earlier versions.

``INSTALLED_APPS`` needs ``"windlass_sdk.django"`` for the command ``manage.py windlass_worker``, and ``TASKS`` a backend
``"windlass_sdk.django.WindlassBackend"``; see ``docs/python.md``.
"""

from .backend import WindlassBackend

__all__ = ["WindlassBackend"]
