-- What became of a call: its live row, or its last run in history. No row: unknown. Rides the primary keys
-- and history_bundle_key.
select state, result, error
from (
  select s.state::text as state, null::text as result, s.error, 1 as rank, null::timestamptz as ended_at
  from mainspring.visit_status s
  where s.key = %(key)s::text and s.queue = %(queue)s::text and s.id = %(id)s::uuid
  union all
  select h.outcome::text, h.result::text, h.error, 2, h.ended_at
  from mainspring.history_run h
  where h.key = %(key)s::text and h.queue = %(queue)s::text and h.id = %(id)s::uuid
    and h.outcome in ('done', 'cancelled', 'expired') and not h.superseded
  union all
  select 'done', null, null, 2, p.last_end
  from mainspring.history_bundle p
  where %(key)s::text = %(id)s::uuid::text and p.kin = left(%(key)s::text, 8) and p.last_key >= %(key)s::text
    and p.first_key <= %(key)s::text and p.queue = %(queue)s::text and %(id)s::uuid = any(p.ids)
) found
order by rank, ended_at desc
limit 1
