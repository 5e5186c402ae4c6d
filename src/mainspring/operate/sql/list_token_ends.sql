-- When whoever calls the server can do so no longer: of each name the last token, or certificate, that was not revoked.
-- Those that ended long ago are forgotten. There are few; nothing is locked.
select name, max(expires_at) as expires_at, extract(epoch from max(expires_at) - now())::double precision as seconds_left
from mainspring.api_token
where revoked_at is null
group by name
having max(expires_at) > now() - make_interval(secs => %(forgotten_after)s::double precision)
order by 2, 1
limit 1000
