-- Which keys a worker can open. One that is gone by now has no row to tell it in.
insert into mainspring.worker_cipher as c (worker_id, keys)
select w.id, %(keys)s::text[] from mainspring.worker w where w.id = %(worker_id)s::uuid
on conflict (worker_id) do update set keys = excluded.keys where c.keys <> excluded.keys
