-- How often should_process of each stage failed or overran in the last system visits of a kind, and what was said last.
-- Rides history_time.
select a.stage, count(*) filter (where a.answer like 'failed%%') as failed, count(*) filter (where a.answer = 'overrun') as overran,
  (array_agg(a.answer order by h.ended_at desc) filter (where a.answer like 'failed%%'))[1] as last
from (
  select ended_at, result from mainspring.history_run
  where queue = %(kind)s::text order by ended_at desc limit %(most)s::integer
) h
cross join lateral jsonb_each_text(case when jsonb_typeof(h.result -> 'asked') = 'object' then h.result -> 'asked' end)
  as a(stage, answer)
where a.answer like 'failed%%' or a.answer = 'overrun'
group by a.stage
order by a.stage
