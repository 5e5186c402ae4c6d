from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            "Order",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("number", models.IntegerField(unique=True)),
                ("paid", models.BooleanField(default=False)),
                ("word", models.TextField(default="")),
            ],
        )
    ]
