"""The project of the guide, used as the guide says."""

import os
from contextlib import suppress

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import transaction  # noqa: E402

call_command("makemigrations", "shop", verbosity=0)
call_command("migrate", verbosity=0)

from shop import tasks  # noqa: E402
from shop.models import Order  # noqa: E402
from shop.orders import place  # noqa: E402

try:
    with transaction.atomic():
        place(1)
        raise LookupError
except LookupError:
    pass
id = place(2)
with suppress(SystemExit):
    call_command("mainspring", "worker", "--drain", "--log-level", "error")
result = tasks.confirm.get_result(id)
assert result.return_value == id
(order,) = Order.objects.all()
print(f"rolled back: nothing; committed: mailed {order.mailed}, result {result.status}")
