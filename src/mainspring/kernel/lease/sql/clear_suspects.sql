-- All suspects of these shards were looked at: forget whose they were. Compares the epochs: a recut may have written
-- a lease of mine that I have not seen, with suspects of its own. `others`: shards with suspects in queues that I do not have;
-- whoever has these looks at them, for an hour after the death: it may be just this that it died of. Rides the primary keys.
update mainspring.lease l
set suspect_of = null
where pool >= %(pool)s::text and pool < %(pool)s::text || ' ' and worker_id = %(worker_id)s::uuid
  and shard = any(%(shards)s::integer[]) and epoch = any(%(epochs)s::bigint[])
  and not (shard = any(%(others)s::integer[]) and exists (
    select from mainspring.death d
    where d.worker_id = l.suspect_of and d.beat_at > mainspring.now() - interval '1 hour'))
