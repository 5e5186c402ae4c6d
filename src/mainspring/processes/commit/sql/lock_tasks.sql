-- Lock task rows in one pass, in the order of their ids, in one mode: those that end, the promises that they close and
-- the promises that new tasks wait for. The answer of this read decides what is open: whoever links and whoever closes
-- a promise both lock its row here, and only later statements look at edges. Rides the primary key.
-- From here on only other commits are waited for, never a user, so with more patience than the settler's 50 ms: two
-- batches of one fan-in meet at its count. Still less than deadlock_timeout.
with patience as materialized (
  select case current_setting('lock_timeout') when '50ms' then set_config('lock_timeout', '900ms', true) end
)
select t.id::text, t.state::text, t.outcome::text, t.generation
from patience
cross join unnest(%(processes)s::text::uuid[], %(ids)s::text::uuid[]) as i(process_id, id)
join mainspring.task t on t.process_id = i.process_id and t.id = i.id
order by t.id
for update of t
