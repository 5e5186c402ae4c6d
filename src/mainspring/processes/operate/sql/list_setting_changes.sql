-- Changes of settings, newest first. Rides the primary key.
select subject, source, before::text, after::text, changed_at
from mainspring.setting_change
where %(subject)s::text is null or subject = %(subject)s::text
order by id desc
limit %(limit)s::integer
