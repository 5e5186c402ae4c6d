-- Lock task rows in one pass, in the order of their ids, in one mode: those that end, the promises that they close and
-- the promises that new tasks wait for. The answer of this read decides what is open: whoever links and whoever closes
-- a promise both lock its row here, and only later statements look at edges. Rides the primary key.
select t.id::text, t.state::text, t.outcome::text, t.generation
from unnest(%(processes)s::text::uuid[], %(ids)s::text::uuid[]) as i(process_id, id)
join mainspring.task t on t.process_id = i.process_id and t.id = i.id
order by t.id
for update of t
