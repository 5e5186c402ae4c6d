-- For a recut: bands that it writes, each with its queues (JSON). What is there already is marked as used. In the order of names.
insert into mainspring.band as b (name, pool, queues)
select i.name, %(pool)s::text, i.queues
from json_to_recordset(%(bands)s::text::json) as i(name text, queues text[])
order by i.name
on conflict (name) do update set used_at = mainspring.now()
