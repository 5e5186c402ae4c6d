-- Reach of workers that are gone and that no lease suspects any more.
delete from mainspring.reach r
where not exists (select from mainspring.worker w where w.id = r.worker_id)
  and not exists (select from mainspring.lease l where l.suspect_of = r.worker_id)
