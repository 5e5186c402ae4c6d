-- Have the next step of an operation done; upserts its visit (functions/operate.sql).
select mainspring.offer_operation(%(id)s::bigint, %(queue)s::text)
