-- Somebody who is no worker leaves: offers need not tell it any more. Rides the primary key.
delete from mainspring.sleeper where queue = any(%(queues)s::text[]) and id = %(id)s::uuid
