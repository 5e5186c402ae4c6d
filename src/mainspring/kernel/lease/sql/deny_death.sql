-- A worker that was declared dead lived, or was ended for want of the database: nothing it ran is to blame. First of its
-- transaction: whoever recovers its holds just now is waited for, and what he counted is taken back next (take_back.sql).
insert into mainspring.death as d (worker_id, beat_at, blames_since)
values (%(worker_id)s::uuid, mainspring.now(), 'infinity')
on conflict (worker_id) do update set blames_since = 'infinity'
