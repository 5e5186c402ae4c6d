-- How many entities a kind has, counted up to a limit (see the function). Locks nothing.
select count(*) as entities from mainspring.crawl_page(%(kind)s::text, null, %(most)s::integer)
