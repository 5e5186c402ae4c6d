-- What the code of this worker says of its queues: rules that are new or changed are written, those it has no more go.
with wanted as materialized (
  select queue, make_interval(secs => keep_result) as keep_result, make_interval(secs => keep_history) as keep_history
  from json_to_recordset(%(rules)s::text::json) as i(queue text, keep_result double precision, keep_history double precision)
),
gone as (
  delete from mainspring.retention r
  where r.queue = any(%(queues)s::text[]) and not exists (select from wanted w where w.queue = r.queue)
)
insert into mainspring.retention as r (queue, keep_result, keep_history)
select queue, keep_result, keep_history from wanted order by queue
on conflict (queue) do update
set keep_result = excluded.keep_result, keep_history = excluded.keep_history, begun_on = '-infinity'
where (r.keep_result, r.keep_history) is distinct from (excluded.keep_result, excluded.keep_history)
