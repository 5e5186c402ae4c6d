-- Fresh keys rise in time: with the key first the index of the primary key grows at one end, instead of everywhere
-- over the shards, and a visit can be found by key and queue alone.
alter table mainspring.visit drop constraint visit_pkey;
alter table mainspring.visit add primary key (key, queue, shard);
