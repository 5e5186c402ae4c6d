-- A page of a kind's keys after one (see the function). Locks nothing.
select key from mainspring.crawl_page(%(kind)s::text, %(after)s::text, %(most)s::integer)
