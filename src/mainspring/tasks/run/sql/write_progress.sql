-- How far some runs are: the last word counts, but none of an attempt that another has followed. In the order of their ids, for two workers may write of the same.
insert into mainspring.progress as p (id, attempt, done, note, changed_at)
select i.id, i.attempt, i.done, i.note, mainspring.now()
from unnest(%(ids)s::uuid[], %(attempts)s::integer[], %(dones)s::float8[], %(notes)s::text[]) as i(id, attempt, done, note)
order by i.id
on conflict (id) do update set attempt = excluded.attempt, done = excluded.done, note = excluded.note,
  changed_at = excluded.changed_at
where p.attempt <= excluded.attempt
