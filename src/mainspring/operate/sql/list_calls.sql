-- Live calls of tasks that fit, of those visits whose keys lie after one and up to another. Locks nothing; rides the primary key.
-- Steps of processes, the engine's own visits and those of other layers are none (functions/cancel.sql).
select v.shard, v.key, v.queue
from mainspring.visit v
where (%(after)s::text is null or v.key > %(after)s::text) and v.key <= %(upto)s::text
  and mainspring.is_call(v.queue, v.payload)
  and (%(queue)s::text is null or v.queue = %(queue)s::text)
  and (%(grp)s::text is null or v.grp = %(grp)s::text)
  and (%(keys)s::text[] is null or v.key = any(%(keys)s::text[]))
  and (%(since)s::timestamptz is null or v.created_at >= %(since)s::timestamptz)
  and (%(until)s::timestamptz is null or v.created_at <= %(until)s::timestamptz)
  and case %(state)s::text
    when 'parked' then v.parked_at is not null
    when 'running' then v.parked_at is null and v.pass is not null
    when 'scheduled' then v.parked_at is null and v.pass is null and v.due_at > mainspring.now()
    when 'waiting' then v.parked_at is null and v.pass is null and v.due_at <= mainspring.now()
    else true end
  and not exists (
    select from unnest(%(names)s::text[], %(texts)s::text[]) as f(name, text)
    where v.payload ->> f.name is distinct from f.text)
order by v.key, v.queue
