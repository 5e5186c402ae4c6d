-- What a stage had under its former names is its own. Before register_stages.sql, in its transaction.
select mainspring.take_over_stage(%(kind)s::text, t.former, t.stage) as known
from jsonb_to_recordset(%(stages)s::text::jsonb) as i(name text, was text[])
cross join lateral (select w.former, i.name as stage from unnest(i.was) as w(former)) t
