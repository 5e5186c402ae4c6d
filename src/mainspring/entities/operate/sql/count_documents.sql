-- Documents of a kind, and the workers that have the kind.
select (select count(*) from mainspring.document where kind = %(kind)s::text) as documents,
  (select count(*) from mainspring.worker where %(kind)s::text = any (queues)) as workers
