-- Count open inputs anew. In the order of the tasks.
insert into mainspring.wait (task, process_id, n)
select task, %(process_id)s::uuid, n
from unnest(%(tasks)s::uuid[], %(counts)s::integer[]) as i(task, n)
order by task
on conflict (task) do update set n = excluded.n
