-- Take a consumer out: it listens no more, its relay visits and deliveries go. Answers how many deliveries went.
-- Visits before deliveries, as everywhere. A run under way has its result dropped: its visit is gone.
with retired as (
  update mainspring.consumer set retired_at = mainspring.now()
  where kind = %(kind)s::text and name = %(consumer)s::text
),
visits as materialized (
  select mainspring.clear_queues(array[%(queue)s::text]) as n
),
gone as (
  delete from mainspring.delivery
  where kind = %(kind)s::text and consumer = %(consumer)s::text and (select n from visits) is not null  -- after them
  returning number
)
select count(*) as deliveries from gone
